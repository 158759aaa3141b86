//! A private nginx: it passes requests through, keeps its connections, and goes on to the next
//! instance without repeating what must not be repeated.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use seawall_testkit::{Nginx, free_port};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What an instance does with a request that it has read.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Answers with its name and the request's lines.
    Answers,
    /// Closes the connection without a word, as one that crashed would.
    Crashes,
}

/// A tiny instance of a service.
struct Instance {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    requests: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
}

impl Instance {
    fn start(name: &'static str, manner: Manner) -> Self {
        // Not one that the system chooses: when the instance is gone, those may be anybody's.
        let listener = TcpListener::bind(("127.0.0.1", free_port().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let listening = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if seen.ended.load(Ordering::SeqCst) {
                    break;
                }
                seen.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let seen = Arc::clone(&seen);
                thread::spawn(move || serve(&stream, name, manner, &seen.requests));
            }
        });
        Self { address, shared, listening: Some(listening) }
    }

    fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    fn connections(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }
}

/// Gone as a killed process is: nobody listens, and what was open is closed.
impl Drop for Instance {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        for stream in self.shared.connections.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: &TcpStream, name: &str, manner: Manner, requests: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(head) = read_head(&mut reader) {
        requests.fetch_add(1, Ordering::SeqCst);
        if manner == Manner::Crashes {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let body = format!("{name}\n{head}");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The lines of a request without a body; `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Sends a request with an empty body; the answer's status and text.
fn ask(nginx: &Nginx, method: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(nginx.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!("{method} /shop/1?x=y HTTP/1.1\r\nHost: market.example\r\n{headers}");
    let request = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn name_of(body: &str) -> String {
    body.lines().next().unwrap().to_owned()
}

#[test]
fn a_request_passes_through_with_the_address_it_came_from() {
    let instance = Instance::start("one", Manner::Answers);
    let nginx = Nginx::start(&[instance.address]).unwrap();
    assert_eq!(nginx.url(), format!("http://{}", nginx.address()));
    let (status, body) = ask(&nginx, "GET", "X-Forwarded-For: 9.9.9.9\r\n");
    assert_eq!(status, 200);
    assert!(body.contains("GET /shop/1?x=y HTTP/1.1\r\n"), "{body}");
    assert!(body.contains("Host: market.example\r\n"), "{body}");
    assert!(body.contains("X-Forwarded-For: 9.9.9.9, 127.0.0.1\r\n"), "{body}");
}

#[test]
fn all_instances_get_their_share_over_connections_that_stay() {
    let instances =
        [Instance::start("one", Manner::Answers), Instance::start("two", Manner::Answers)];
    let nginx = Nginx::start(&[instances[0].address, instances[1].address]).unwrap();
    let names: HashSet<String> = (0..20).map(|_| name_of(&ask(&nginx, "POST", "").1)).collect();
    assert_eq!(names.len(), 2);
    for instance in &instances {
        assert!(instance.requests() >= 5, "{}", instance.requests());
        assert!(instance.connections() < instance.requests(), "{}", instance.connections());
    }
}

#[test]
fn when_an_instance_is_gone_the_other_answers_everything() {
    let one = Instance::start("one", Manner::Answers);
    let two = Instance::start("two", Manner::Answers);
    let nginx = Nginx::start(&[one.address, two.address]).unwrap();
    let answered: HashSet<String> = (0..4).map(|_| name_of(&ask(&nginx, "GET", "").1)).collect();
    assert_eq!(answered.len(), 2);
    drop(one);
    for _ in 0..10 {
        let (status, body) = ask(&nginx, "GET", "");
        assert_eq!((status, name_of(&body)), (200, "two".to_owned()), "{}", nginx.log());
    }
    drop(two);
    assert_eq!(ask(&nginx, "GET", "").0, 502);
}

#[test]
fn only_what_is_safe_to_repeat_is_repeated() {
    let crashing =
        [Instance::start("one", Manner::Crashes), Instance::start("two", Manner::Crashes)];
    let requests = || crashing.iter().map(Instance::requests).sum::<usize>();
    let addresses = [crashing[0].address, crashing[1].address];
    assert_eq!(ask(&Nginx::start(&addresses).unwrap(), "POST", "").0, 502);
    assert_eq!(requests(), 1, "a POST that was sent is not sent again");
    assert_eq!(ask(&Nginx::start(&addresses).unwrap(), "GET", "").0, 502);
    assert_eq!(requests(), 3, "a GET is tried on both");
}

#[test]
fn it_is_gone_when_it_is_dropped_and_wants_something_to_balance_over() {
    let instance = Instance::start("one", Manner::Answers);
    let nginx = Nginx::start(&[instance.address]).unwrap();
    let address = nginx.address();
    drop(nginx);
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(Nginx::start(&[]).unwrap_err().kind(), ErrorKind::InvalidInput);
}
