//! Tests of the shared connection against a server that the test simulates.

use std::pin::pin;

use futures_util::FutureExt;
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn connection(patience: Duration) -> (Arc<MultiplexedConnection>, DuplexStream) {
    let (ours, server) = duplex(1 << 16);
    (
        Arc::new(MultiplexedConnection::over(Box::new(ours), Some(patience), &Clock::system())),
        server,
    )
}

async fn read_pings(server: &mut DuplexStream, count: usize) {
    let mut bytes = vec![0; count * PING.len()];
    server.read_exact(&mut bytes).await.expect("commands come");
}

#[tokio::test]
async fn everybody_gets_the_reply_in_their_place_also_behind_one_who_gave_up() {
    let (connection, mut server) = connection(Duration::from_secs(60));
    assert!(connection.send(&cmd("PING")).now_or_never().is_none(), "sent, and given up at once");
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let connection = Arc::clone(&connection);
            tokio::spawn(async move { connection.send(&cmd("PING")).await })
        })
        .collect();
    read_pings(&mut server, 101).await;
    let replies: String = (0..=100).map(|number| format!(":{number}\r\n")).collect();
    server.write_all(replies.as_bytes()).await.expect("written");
    for (number, caller) in (1..).zip(callers) {
        let reply = caller.await.expect("it ran").expect("answered");
        assert_eq!(reply, Reply::Int(number), "the first reply is of the one who gave up");
    }
}

#[tokio::test]
async fn a_connection_that_ends_says_what_can_have_been_carried_out() {
    let (connection, mut server) = connection(Duration::from_secs(60));
    let sent = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.send(&cmd("PING")).await }
    });
    read_pings(&mut server, 1).await;
    // The driver does not see it before the connection ends: tasks take turns on one thread.
    drop(server);
    let unsent = connection.send(&cmd("PING")).await;
    let sent = sent.await.expect("it ran").expect_err("no reply");
    assert!(sent.is_indeterminate(), "{sent}");
    assert!(matches!(unsent, Err(Error::Unavailable(_))), "{unsent:?}");
    assert!(!connection.is_open());
    assert!(matches!(connection.send(&cmd("PING")).await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn who_waits_too_long_is_told_and_keeps_its_place() {
    let (connection, mut server) = connection(Duration::from_millis(20));
    let late = connection.send(&cmd("PING")).await.expect_err("nobody answers");
    assert!(late.is_indeterminate(), "{late}");
    let heard = connection.heard();
    server.write_all(b":0\r\n").await.expect("written");
    while connection.heard() == heard {
        tokio::task::yield_now().await;
    }
    assert!(connection.is_open(), "a late reply is not a reply that nobody asked for");
}

#[tokio::test]
async fn rubbish_ends_the_connection() {
    let (connection, mut server) = connection(Duration::from_secs(60));
    server.write_all(b"+unasked\r\n").await.expect("written");
    while connection.is_open() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn beyond_the_bound_callers_are_refused_at_once_and_nothing_of_theirs_is_sent() {
    let (connection, mut server) = connection(Duration::from_secs(60));
    for _ in 0..MAX_WAITING {
        assert!(connection.send(&cmd("PING")).now_or_never().is_none(), "sent, and waiting");
    }
    let one = connection.send(&cmd("PING")).now_or_never().expect("at once").map(drop);
    let mut two = Pipeline::with_capacity(2);
    two.cmd("PING").cmd("PING");
    let several = connection.send_all(&two).now_or_never().expect("at once").map(drop);
    for refused in [one, several] {
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    }
    // All callers have been answered: new commands are accepted again.
    const STEP: usize = 1 << 10;
    for _ in 0..MAX_WAITING / STEP {
        read_pings(&mut server, STEP).await;
        server.write_all(&b":0\r\n".repeat(STEP)).await.expect("written");
    }
    let next = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.send(&cmd("TIME")).await }
    });
    let mut bytes = [0; PING.len()];
    server.read_exact(&mut bytes).await.expect("a command comes");
    assert_eq!(&bytes, b"*1\r\n$4\r\nTIME\r\n", "and none of those that were refused");
    server.write_all(b":7\r\n").await.expect("written");
    assert_eq!(next.await.expect("it ran").expect("answered"), Reply::Int(7));
}

/// The process stalls for longer than the time-out, and the replies arrive in the meantime.
#[tokio::test]
async fn nobody_is_late_whose_reply_is_here() {
    const CALLERS: usize = 200;
    let (ours, mut server) = duplex(1 << 16);
    let shared = Arc::new(Shared::new());
    let mut driver = Driver::new(Arc::clone(&shared), Box::new(ours), None, Clock::system());
    let mut answers = Vec::new();
    for _ in 0..CALLERS {
        let (answer, reply) = oneshot::channel();
        let mut outbox = shared.outbox();
        cmd("PING").write_packed_command(&mut outbox.bytes);
        outbox.callers.push(Caller::One(answer));
        answers.push(reply);
    }
    while driver.waiting.len() < CALLERS {
        assert!(poll_fn(|cx| Poll::Ready(driver.poll(cx))).await.is_pending());
    }
    read_pings(&mut server, CALLERS).await;
    server.write_all(&b":0\r\n".repeat(CALLERS)).await.expect("written");
    driver.patience = Some(Duration::ZERO);
    while !driver.waiting.is_empty() {
        assert!(poll_fn(|cx| Poll::Ready(driver.poll(cx))).await.is_pending());
        // The timer fires.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for answer in answers {
        assert_eq!(answer.await.expect("told").expect("answered"), Reply::Int(0));
    }
}

#[tokio::test]
async fn the_time_for_a_reply_is_that_of_the_given_clock() {
    let (clock, time) = Clock::manual();
    let (ours, _server) = duplex(1 << 16);
    let patience = Duration::from_secs(3600);
    let connection = MultiplexedConnection::over(Box::new(ours), Some(patience), &clock);
    let command = cmd("PING");
    let mut reply = pin!(connection.send(&command));
    // The driver takes the command, then its time begins.
    while futures_util::poll!(&mut reply).is_pending() {
        tokio::task::yield_now().await;
        time.advance(patience / 8);
    }
    assert!(time.now().since(Moment::default()) >= patience, "not before its time");
}
