//! A private nginx that balances over instances of a service, as in front of the market.
//!
//! Faults that occur only behind a load balancer can be tested only with one: a session that lives
//! in one process, an address that the proxy hides, a request that is sent twice. It is a real
//! nginx with the settings that matter: connections to the instances are kept alive; a request goes
//! to the next instance if one is gone, but never a second time if it may have been executed and is
//! not safe to repeat. It runs as one process, so that killing one process id ends all of it.
//!
//! Deliberately absent: TLS and caching.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::daemon::{Daemon, POLL_PAUSE, server_program};
use crate::port::free_port;
use crate::rng::random_word;

/// Maximum starts on different ports.
const START_ATTEMPTS: usize = 5;
/// Maximum time until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Maximum time for an answer of nginx itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time for a requested shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Folders that nginx writes bodies to; it requires all of them, used or not.
const BODIES: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// A running nginx. Dropping it ends the process.
///
/// ```no_run
/// use seawall_testkit::Nginx;
///
/// let instances = ["127.0.0.1:8081".parse().unwrap(), "127.0.0.1:8082".parse().unwrap()];
/// let nginx = Nginx::start(&instances)?;
/// // … send requests to nginx.url() …
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Nginx {
    daemon: Daemon,
    port: u16,
    /// After the daemon, so that it is removed when no process writes to it any more.
    _temporary: TempDir,
}

impl Nginx {
    /// Starts nginx in front of `upstreams`, which need not run yet, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If there are no upstreams, or the program is missing, exits early or does not answer in
    /// time; the message contains its log.
    pub fn start(upstreams: &[SocketAddr]) -> io::Result<Self> {
        if upstreams.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing to balance over"));
        }
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            match Self::launch(upstreams) {
                Ok(nginx) => return Ok(nginx),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn launch(upstreams: &[SocketAddr]) -> io::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("seawall-nginx-").tempdir()?;
        let dir = temporary.path();
        let (port, token) = (free_port()?, random_word());
        let file = dir.join("nginx.conf");
        fs::write(&file, configuration(dir, port, &token, upstreams))?;
        let mut command = Command::new(server_program("nginx"));
        command.args(["-e", "stderr", "-p"]).arg(dir).arg("-c").arg(file);
        let daemon = Daemon::spawn(&mut command, &dir.join("log"))?;
        let mut nginx = Self { daemon, port, _temporary: temporary };
        nginx.wait_until_ready(&token)?;
        Ok(nginx)
    }

    /// Returns the base URL: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns its output so far, such as errors of its upstreams.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    fn wait_until_ready(&mut self, token: &str) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.daemon.check_alive()?;
            match greeting(self.address(), token) {
                Ok(answer) if answer.ends_with(token) => return Ok(()),
                Ok(answer) if !answer.is_empty() => {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "port was taken"));
                }
                _ => {}
            }
            if Instant::now() > deadline {
                let message = format!("not ready after {START_LIMIT:?}: {}", self.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_PAUSE);
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A process that does not react is killed with the daemon.
        if matches!(self.daemon.exited(), Ok(None)) {
            let _ = self.daemon.terminate(STOP_LIMIT);
        }
    }
}

/// Returns the answer on the path that only our nginx has.
fn greeting(address: SocketAddr, token: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("GET /.nginx/{token} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn configuration(dir: &Path, port: u16, token: &str, upstreams: &[SocketAddr]) -> String {
    let dir = dir.display();
    let mut bodies = String::new();
    for name in BODIES {
        let _ = writeln!(bodies, "    {name}_temp_path \"{dir}/{name}\";");
    }
    let mut servers = String::new();
    for address in upstreams {
        let _ = writeln!(servers, "        server {address} max_fails=1 fail_timeout=1s;");
    }
    format!(
        r#"daemon off;
master_process off;
pid "{dir}/pid";
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
{bodies}    upstream instances {{
{servers}        keepalive 64;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        # How large a body may be is for the service to say.
        client_max_body_size 0;
        location = /.nginx/{token} {{ return 200 {token}; }}
        location / {{
            proxy_pass http://instances;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            # Appends, as most do: what a client claims stands to the left of what is true.
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            # Without `non_idempotent`: a POST that was sent is not sent again.
            proxy_next_upstream error timeout;
            proxy_connect_timeout 2s;
            proxy_read_timeout 10s;
        }}
    }}
}}
"#
    )
}
