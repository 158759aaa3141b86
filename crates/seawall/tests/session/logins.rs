//! Many logins of one user at once: what is returned was stored, and no more stay than are allowed.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall,
    session::{Fields, Restore, Sessions, Token},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    many_logins_at_once_leave_as_many_as_are_allowed
    one_that_a_further_login_ended_stays_ended
    a_session_that_is_restored_while_others_are_opened_is_there_or_too_old
}

const LOGINS: usize = 16;
const ROUNDS: u64 = 10;

/// Logs a user in so often at once.
async fn login(sessions: &Sessions<u64>, user: u64) -> Vec<Token> {
    let mut logins = tokio::task::JoinSet::new();
    for _ in 0..LOGINS {
        let sessions = sessions.clone();
        logins.spawn(async move { sessions.open(&user, &Fields::new()).await });
    }
    let opened = logins.join_all().await;
    opened.into_iter().map(|token| token.expect("opened")).collect()
}

async fn alive(sessions: &Sessions<u64>, tokens: &[Token]) -> usize {
    let mut alive = 0;
    for token in tokens {
        alive += usize::from(sessions.load(token).await.expect("answered").found().is_some());
    }
    alive
}

async fn many_logins_at_once_leave_as_many_as_are_allowed(setup: Setup) {
    let (one, other) = (setup.connect().await, setup.connect().await);
    for (name, most) in [("one", 1), ("few", 5), ("all", LOGINS)] {
        let build = |seawall: &Seawall| {
            seawall.sessions::<u64>(name).max_per_user(most).build().expect("valid")
        };
        let (here, there) = (build(&one), build(&other));
        for user in 0..ROUNDS {
            let tokens = login(if user % 2 == 0 { &here } else { &there }, user).await;
            assert_eq!(alive(&here, &tokens).await, most, "{name} {user}");
            let list = here.list(&user).await.expect("answered");
            assert_eq!(list.len(), most, "{name} {user}");
            let last = here.open(&user, &Fields::new()).await.expect("opened");
            assert_eq!(alive(&there, &[last]).await, 1, "a further one ends another");
            assert_eq!(alive(&here, &tokens).await, most - 1);
        }
    }
    other.shutdown().await;
    one.shutdown().await;
}

/// Also when somebody has a record of it, and there is room again.
async fn one_that_a_further_login_ended_stays_ended(setup: Setup) {
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("ended").max_per_user(2).build().expect("valid");
    let open = async || sessions.open(&1, &Fields::new()).await.expect("opened");
    let first = open().await;
    let until = sessions.load(&first).await.expect("answered").found().expect("open").until;
    let (second, third) = (open().await, open().await);
    assert_eq!(alive(&sessions, std::slice::from_ref(&first)).await, 0);
    let _ = sessions.revoke(&second).await.expect("answered");
    let restored = sessions.restore(&first.id(), &1, until, &Fields::new()).await;
    assert_eq!(restored.expect("answered"), Restore::Ended);
    assert_eq!(alive(&sessions, &[first, third]).await, 1);
    assert_eq!(sessions.list(&1).await.expect("answered").len(), 1);
    seawall.shutdown().await;
}

/// Its entry in the index is old from the beginning: that is no reason to take it away.
async fn a_session_that_is_restored_while_others_are_opened_is_there_or_too_old(setup: Setup) {
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("back").max_per_user(LOGINS + 2).build().expect("valid");
    for user in 0..ROUNDS {
        let lost = sessions.open(&user, &Fields::new()).await.expect("opened");
        let until = sessions.load(&lost).await.expect("answered").found().expect("open").until;
        let _ = sessions.revoke(&lost).await.expect("answered");
        // So many that each further one looks for those that are too many.
        let tokens = login(&sessions, user).await;
        let _ = login(&sessions, user).await;
        // Logins of one millisecond are entered as if they came in as many; those are over then.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let fields = Fields::new();
        let id = lost.id();
        // As long as is allowed, whatever is asked for.
        let until = until + 60_000;
        let (restored, more) =
            tokio::join!(sessions.restore(&id, &user, until, &fields), login(&sessions, user));
        let restored = restored.expect("answered");
        assert_eq!(alive(&sessions, &more).await, LOGINS);
        let there = alive(&sessions, std::slice::from_ref(&lost)).await == 1;
        // Newer than those before it: they went.
        assert_eq!((restored, there), (Restore::Restored, true));
        assert_eq!(sessions.list(&user).await.expect("answered").len(), LOGINS + 2);
        // And one that is older than all others is too old.
        let (oldest, gone) = (tokens[0].id(), until - 120_000);
        let restored = sessions.restore(&oldest, &user, gone, &fields).await.expect("answered");
        assert_eq!(restored, Restore::Ended);
    }
    seawall.shutdown().await;
}

/// The keys of sessions that some script was told to write.
fn watch(proxy: &FaultProxy) -> Arc<Mutex<HashSet<Vec<u8>>>> {
    let written = Arc::new(Mutex::new(HashSet::new()));
    let noted = Arc::clone(&written);
    proxy.watch(On::any().when(move |command| {
        let mut noted = noted.lock().expect("no panic");
        noted.extend(command.iter().filter(|word| word.starts_with(b"session:{")).cloned());
        false
    }));
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_token_that_is_returned_was_stored() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let written = watch(&proxy);
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_secs(20));
    let seawall = builder.connect().await.expect("in");
    let sessions = seawall.sessions::<u64>("web").max_per_user(1).build().expect("valid");
    let mut tokens = Vec::new();
    for user in 0..ROUNDS {
        tokens.extend(login(&sessions, user).await);
    }
    let written = written.lock().expect("no panic").clone();
    let key = |token: &Token| format!("session:{{web:{}}}", token.id().as_str()).into_bytes();
    let missing = tokens.iter().filter(|token| !written.contains(&key(token))).count();
    assert_eq!(missing, 0, "of {}", tokens.len());
    let different: BTreeSet<_> = tokens.iter().map(|token| token.reveal().to_owned()).collect();
    assert_eq!(different.len(), tokens.len());
    seawall.shutdown().await;
}

/// Somebody ends all sessions again and again: whoever opens one has it, or is told that it was ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_ended_while_it_was_opened_is_an_error() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let direct = Seawall::connect(&server.url()).await.expect("in");
    let build = |seawall: &Seawall| seawall.sessions::<u64>("web").build().expect("valid");
    let (sessions, ender) = (build(&seawall), build(&direct));
    let ending = tokio::spawn(async move {
        loop {
            let _ = ender.revoke_all(&1).await.expect("answered");
        }
    });
    proxy.delay(seawall_testkit::proxy::Direction::Replies, Duration::from_millis(20));
    let written = watch(&proxy);
    for _ in 0..5 {
        match sessions.open(&1, &Fields::new()).await {
            Err(error) => assert!(error.is_code("ENDED"), "{error}"),
            Ok(token) => {
                let key = format!("session:{{web:{}}}", token.id().as_str()).into_bytes();
                assert!(written.lock().expect("no panic").contains(&key), "never stored");
            }
        }
    }
    ending.abort();
    direct.shutdown().await;
    seawall.shutdown().await;
}

/// A Redis that may not grow opens no session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_opens_no_session() {
    let server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    let sessions = seawall.sessions::<u64>("full").build().expect("valid");
    let token = sessions.open(&1, &Fields::new()).await.expect("opened");
    let mut operator = server.connect().expect("connected");
    operator.call(&["CONFIG", "SET", "maxmemory", "1"]).expect("answered");
    let error = sessions.open(&1, &Fields::new()).await.expect_err("it is full");
    assert!(error.is_code("OOM"), "{error}");
    assert!(sessions.load(&token).await.expect("answered").found().is_some());
    assert_eq!(sessions.list(&1).await.expect("answered").len(), 1);
    seawall.shutdown().await;
}
