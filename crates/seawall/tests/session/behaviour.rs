//! Opening, sliding, ending, and what is never to be seen.

use std::{collections::BTreeSet, time::Duration};

use seawall::{
    cmd,
    session::{Fields, Load, Restore, Revoke, Token},
    testing::TestServer,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    sessions_are_opened_listed_and_ended
    all_sessions_of_a_user_end_while_others_are_opened
    a_lost_session_is_restored_unless_it_was_ended
    only_the_oldest_of_those_that_live_are_too_many
    a_shorter_lifetime_holds_from_then_on
}

fn fields(role: &str) -> Fields {
    Fields::from([("role".to_owned(), role.to_owned()), ("nick".to_owned(), "Ann".to_owned())])
}

async fn a_lost_session_is_restored_unless_it_was_ended(setup: Setup) {
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("web").max_per_user(2).build().expect("valid");
    let restore = async |token: &Token, until: i64| {
        let (id, fields) = (token.id(), fields("user"));
        sessions.restore(&id, &42, until, &fields).await.expect("answered")
    };
    let load = async |token: &Token| sessions.load(token).await.expect("answered").found();
    let token = sessions.open(&42, &fields("user")).await.expect("answered");
    let opened = load(&token).await.expect("open");
    // Lost without a trace, and brought back by two at once.
    sessions.revoke_all(&42).await.expect("answered");
    assert_eq!(load(&token).await, None);
    let both = tokio::join!(restore(&token, opened.until), restore(&token, opened.until));
    assert_eq!(both, (Restore::Restored, Restore::Restored));
    assert_eq!(load(&token).await, Some(opened.clone()));
    let list = sessions.list(&42).await.expect("answered");
    assert_eq!(list.iter().map(|info| &info.id).collect::<Vec<_>>(), [&token.id()]);
    assert!(list[0].idle_left <= Duration::from_secs(30 * 60), "{list:?}");
    // One that is there is left as it is.
    let changed = sessions.replace(&token, &fields("admin")).await.expect("answered").found();
    assert_eq!(restore(&token, opened.until).await, Restore::Restored);
    assert_eq!(load(&token).await, changed);
    // One that was ended for good stays away, however late somebody is.
    sessions.bar(&token.id(), Duration::from_secs(3600)).await.expect("answered");
    assert_eq!(sessions.revoke(&token).await.expect("answered"), Revoke::Revoked);
    assert_eq!(restore(&token, opened.until).await, Restore::Ended);
    assert_eq!(load(&token).await, None);
    // So does one whose time is over, and one that made room for newer ones.
    let old = Token::parse(&"1".repeat(32)).expect("well formed");
    assert_eq!(restore(&old, opened.until - 8 * 24 * 3_600_000).await, Restore::Ended);
    sessions.revoke_all(&42).await.expect("answered");
    for _ in 0..2 {
        sessions.open(&42, &fields("user")).await.expect("answered");
    }
    assert_eq!(restore(&old, opened.until - 60_000).await, Restore::Ended);
    assert_eq!(load(&old).await, None);
    assert_eq!(sessions.list(&42).await.expect("answered").len(), 2);
    seawall.shutdown().await;
}

async fn sessions_are_opened_listed_and_ended(setup: Setup) {
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("web").max_per_user(3).build().expect("valid");
    let token = sessions.open(&42, &fields("user")).await.expect("answered");
    let session = sessions.load(&token).await.expect("answered").found().expect("open");
    assert_eq!((session.user, &session.fields, session.slid), (42, &fields("user"), false));
    // A token that a client wrote.
    let written = Token::parse(token.reveal()).expect("our own text");
    assert!(sessions.load(&written).await.expect("answered").found().is_some());
    let guess = Token::parse(&"0".repeat(32)).expect("well formed");
    assert_eq!(sessions.load(&guess).await.expect("answered"), Load::Unknown);

    // The token is nowhere in Redis: its digest names the key.
    let key = setup.entry(&format!("session:{{web:{}}}", token.id().as_str()));
    let client = seawall.client();
    let there: u64 = client.query(key.as_bytes(), cmd("EXISTS").arg(&key)).await.expect("a count");
    assert_eq!(there, 1);
    let hash: Vec<String> =
        client.query(key.as_bytes(), cmd("HGETALL").arg(&key)).await.expect("fields");
    assert!(hash.iter().all(|text| !text.contains(token.reveal())), "{hash:?}");

    let changed = sessions.replace(&token, &fields("admin")).await.expect("answered");
    assert_eq!(changed.found().expect("open").fields["role"], "admin");
    let left: i64 = client.query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a time");
    assert!((1..=30 * 60 * 1000).contains(&left), "{left}");
    assert_eq!(sessions.replace(&guess, &fields("x")).await.expect("answered"), Load::Unknown);

    // One that does not say when it slides, as older ones, slides at once and says so from then on.
    client.send(key.as_bytes(), cmd("HDEL").arg(&key).arg("~slide")).await.expect("answered");
    for slid in [true, false] {
        let session = sessions.load(&token).await.expect("answered").found().expect("open");
        assert_eq!(session.slid, slid);
    }

    // All of a user's, and nobody else's.
    let second = sessions.open(&42, &fields("user")).await.expect("answered");
    let other = sessions.open(&45, &fields("user")).await.expect("answered");
    assert_eq!(sessions.replace_all(&42, &fields("guest")).await.expect("answered"), 2);
    for (token, role) in [(&token, "guest"), (&second, "guest"), (&other, "user")] {
        let session = sessions.load(token).await.expect("answered").found().expect("open");
        assert_eq!(session.fields["role"], role);
    }
    assert_eq!(sessions.revoke(&second).await.expect("answered"), Revoke::Revoked);
    assert_eq!(sessions.replace_all(&42, &fields("admin")).await.expect("answered"), 1);
    assert_eq!(sessions.replace_all(&44, &fields("admin")).await.expect("answered"), 0);

    // Limits.
    let many: Fields = (0..65).map(|n| (n.to_string(), String::new())).collect();
    let large = Fields::from([("a".to_owned(), "x".repeat(4097))]);
    let ours = Fields::from([("~user".to_owned(), "1".to_owned())]);
    for bad in [many, large, ours] {
        assert!(sessions.open(&42, &bad).await.is_err());
    }

    // A fourth session ends the oldest.
    let mut tokens = vec![token];
    for _ in 0..3 {
        tokens.push(sessions.open(&42, &Fields::new()).await.expect("answered"));
    }
    assert_eq!(sessions.load(&tokens[0]).await.expect("answered"), Load::Unknown);
    let listed = sessions.list(&42).await.expect("answered");
    let ids: BTreeSet<_> = listed.iter().map(|info| info.id.clone()).collect();
    assert_eq!(ids, tokens[1..].iter().map(Token::id).collect());
    assert!(listed.iter().all(|info| info.idle_left > Duration::from_secs(1_700)));

    assert_eq!(sessions.revoke(&tokens[1]).await.expect("answered"), Revoke::Revoked);
    assert_eq!(sessions.revoke(&tokens[1]).await.expect("answered"), Revoke::Unknown);
    assert_eq!(sessions.revoke_by_id(&tokens[2].id()).await.expect("answered"), Revoke::Revoked);
    assert_eq!(sessions.list(&42).await.expect("answered").len(), 1);
    let other = sessions.open(&43, &Fields::new()).await.expect("answered");
    assert_eq!(sessions.revoke_all(&42).await.expect("answered"), 1);
    assert_eq!(sessions.revoke_all(&42).await.expect("answered"), 0);
    assert!(sessions.list(&42).await.expect("answered").is_empty());
    assert!(sessions.load(&other).await.expect("answered").found().is_some(), "not concerned");
    seawall.shutdown().await;
}

async fn only_the_oldest_of_those_that_live_are_too_many(setup: Setup) {
    const MOST: usize = 5;
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("web").max_per_user(MOST).build().expect("valid");
    let first = sessions.open(&1, &Fields::new()).await.expect("answered");
    // The others end as those do that nobody uses: their keys go, their entries stay.
    for _ in 1..MOST {
        let token = sessions.open(&1, &Fields::new()).await.expect("answered");
        let key = setup.entry(&format!("session:{{web:{}}}", token.id().as_str()));
        seawall.client().send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    }
    let next = sessions.open(&1, &Fields::new()).await.expect("answered");
    for token in [&first, &next] {
        assert!(sessions.load(token).await.expect("answered").found().is_some());
    }
    // However many are opened at once, as many live as may.
    let role = fields("user");
    let opened = (0..30).map(|_| sessions.open(&2, &role));
    let mut live = BTreeSet::new();
    for token in futures_util::future::join_all(opened).await {
        let token = token.expect("answered");
        if sessions.load(&token).await.expect("answered").found().is_some() {
            live.insert(token.id());
        }
    }
    assert_eq!(live.len(), MOST);
    let listed = sessions.list(&2).await.expect("answered").into_iter().map(|info| info.id);
    assert_eq!(listed.collect::<BTreeSet<_>>(), live);
    seawall.shutdown().await;
}

async fn all_sessions_of_a_user_end_while_others_are_opened(setup: Setup) {
    let seawall = setup.connect().await;
    let sessions = seawall.sessions::<u64>("web").max_per_user(500).build().expect("valid");
    let mut tasks = Vec::new();
    for task in 0..16 {
        let sessions = sessions.clone();
        tasks.push(tokio::spawn(async move {
            let mut opened = Vec::new();
            for _ in 0..8 {
                if task % 4 == 0 {
                    sessions.revoke_all(&1).await.expect("answered");
                } else {
                    match sessions.open(&1, &Fields::new()).await {
                        Ok(token) => opened.push(token),
                        // All were ended three times meanwhile.
                        Err(error) => assert!(error.is_code("ENDED"), "{error}"),
                    }
                }
            }
            opened
        }));
    }
    let mut opened = Vec::new();
    for task in tasks {
        opened.extend(task.await.expect("no panic"));
    }
    // Every session that lives is in the list: none can escape the next end of all.
    let listed: BTreeSet<_> =
        sessions.list(&1).await.expect("answered").into_iter().map(|info| info.id).collect();
    for token in &opened {
        let lives = sessions.load(token).await.expect("answered").found().is_some();
        assert_eq!(lives, listed.contains(&token.id()));
    }
    sessions.revoke_all(&1).await.expect("answered");
    for token in &opened {
        assert_eq!(sessions.load(token).await.expect("answered"), Load::Unknown);
    }
    seawall.shutdown().await;
}

#[tokio::test]
async fn no_session_escapes_the_end_of_all() {
    let test_server = TestServer::start().await.expect("a test_server");
    let sessions = test_server.seawall().sessions::<u64>("web").build().expect("valid");
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(sessions.open(&1, &Fields::new()).await.expect("answered"));
    }
    sessions.revoke_all(&1).await.expect("answered");
    for token in &tokens {
        let alive = sessions.load(token).await.expect("answered").found();
        assert_eq!(alive, None, "it was opened before all were ended");
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_session_slides_once_in_a_fraction_and_never_beyond_its_longest() {
    let test_server = TestServer::start().await.expect("a test_server");
    let minute = Duration::from_secs(60);
    let builder =
        test_server.seawall().sessions::<u64>("web").idle_ttl(40 * minute).max_ttl(100 * minute);
    let sessions = builder.slides(4).build().expect("valid");
    let token = sessions.open(&1, &Fields::new()).await.expect("answered");
    let slid = async || sessions.load(&token).await.expect("answered").found().map(|s| s.slid);
    assert_eq!(slid().await, Some(false));
    test_server.advance(9 * minute).await;
    assert_eq!(slid().await, Some(false), "not a quarter yet");
    test_server.advance(minute).await;
    assert_eq!(slid().await, Some(true));
    assert_eq!(slid().await, Some(false), "once");
    test_server.advance(39 * minute).await;
    assert_eq!(slid().await, Some(true), "it lives from the last read on");
    test_server.advance(30 * minute).await;
    assert_eq!(slid().await, Some(true), "79 of 100: by what is left of the longest");
    test_server.advance(20 * minute).await;
    assert!(slid().await.is_some(), "99");
    test_server.advance(minute).await;
    assert_eq!(slid().await, None, "100");
    assert!(sessions.list(&1).await.expect("answered").is_empty());

    let token = sessions.open(&1, &Fields::new()).await.expect("answered");
    test_server.advance(40 * minute).await;
    assert!(sessions.load(&token).await.expect("answered").found().is_none(), "idle");
    // Nothing is left once the longest life is over.
    test_server.advance(61 * minute).await;
    let left: Vec<String> =
        test_server.seawall().client().query(b"", cmd("KEYS").arg("*")).await.expect("names");
    assert!(left.is_empty(), "{left:?}");
    test_server.shutdown().await;
}

#[tokio::test]
async fn settings_that_make_no_sense_are_named() {
    let test_server = TestServer::start().await.expect("a test_server");
    let make = || test_server.seawall().sessions::<u64>("web");
    assert!(make().idle_ttl(Duration::ZERO).build().is_err());
    assert!(make().max_ttl(Duration::from_secs(1)).build().is_err());
    assert!(make().max_ttl(Duration::MAX).build().is_err());
    assert!(make().slides(0).build().is_err());
    let never = make().slides(1).build().expect_err("it would never slide").to_string();
    assert!(never.contains("slides"), "{never}");
    assert!(make().max_per_user(0).build().is_err());
    // A lost reply while opening: nobody knows the token, and nothing stays for ever.
    let sessions = make().build().expect("valid");
    test_server.faults().lose_replies(1);
    assert!(sessions.open(&1, &Fields::new()).await.is_err());
    test_server.advance(Duration::from_secs(8 * 24 * 3600)).await;
    let left: Vec<String> =
        test_server.seawall().client().query(b"", cmd("KEYS").arg("*")).await.expect("names");
    assert!(left.is_empty(), "{left:?}");
    test_server.shutdown().await;
}

/// The same sessions, opened for longer before.
async fn a_shorter_lifetime_holds_from_then_on(setup: Setup) {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let seawall = setup.connect().await;
    let sessions =
        |longest| seawall.sessions::<u64>("web").max_per_user(3).max_ttl(longest).build();
    let (before, now) = (sessions(7 * DAY).expect("valid"), sessions(DAY).expect("valid"));
    let load = async |token: &Token| now.load(token).await.expect("answered").found();
    let oldest = before.open(&42, &fields("user")).await.expect("answered");
    let until = load(&oldest).await.expect("open").until;
    let tomorrow = until - 6 * DAY.as_millis() as i64;
    // However long the machine takes for this test.
    let about_tomorrow = tomorrow..tomorrow + 3_600_000;
    let second = now.open(&42, &fields("user")).await.expect("answered");
    let session = load(&second).await.expect("open");
    assert!(about_tomorrow.contains(&session.until), "{} after {tomorrow}", session.until);
    // One that comes back lives no longer either.
    let restored = Token::parse(&"1".repeat(32)).expect("well formed");
    let back = now.restore(&restored.id(), &42, until, &fields("user")).await.expect("answered");
    assert_eq!(back, Restore::Restored);
    let session = load(&restored).await.expect("restored");
    assert!(about_tomorrow.contains(&session.until), "{} after {tomorrow}", session.until);
    // Whoever ends all finds the one that lives longest, to its end.
    let key = setup.entry("session-of:{web:42}");
    let ends: i64 = {
        let (client, mut ask) = (seawall.client(), cmd("PTTL"));
        ask.arg(&key);
        let left: i64 = client.query(key.as_bytes(), &ask).await.expect("a time");
        client.server_millis() + left
    };
    assert!(ends > until - 3_600_000, "the index ends {ends}, a session {until}");
    // One that is there is not lost from the list before its end by a record that says less.
    let back = now.restore(&oldest.id(), &42, tomorrow, &fields("user")).await.expect("answered");
    assert_eq!(back, Restore::Restored);
    let listed = now.list(&42).await.expect("answered");
    let listed = listed.iter().find(|info| info.id == oldest.id()).expect("in the list");
    assert_eq!(listed.until, until);
    // The oldest is the one that was opened first, not the one that ends first.
    let newest = now.open(&42, &fields("user")).await.expect("answered");
    assert_eq!(load(&oldest).await, None);
    for token in [&second, &restored, &newest] {
        assert!(load(token).await.is_some());
    }
    assert_eq!(now.revoke_all(&42).await.expect("answered"), 3);
    seawall.shutdown().await;
}
