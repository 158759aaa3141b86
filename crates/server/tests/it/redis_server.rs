//! A redis-server of the test's own, to compare with.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use crate::support::{PATIENCE, eventually};

/// A running redis-server; killed when dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// Starts one on a free port, with nothing on disk and these settings.
    pub(crate) fn start(settings: &[&str]) -> Redis {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port is free")
            .port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--dir"])
            .arg(std::env::temp_dir())
            .args(settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let redis = Redis { child, port };
        eventually("redis-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        redis
    }

    /// A new connection.
    pub(crate) fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("redis-server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a positive time-out");
        stream.set_nodelay(true).expect("a TCP option");
        stream
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
