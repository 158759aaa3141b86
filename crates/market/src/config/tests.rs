//! Valid settings, and messages for invalid ones.

use std::fs;

use super::*;

fn flags(flags: &[(&str, &str)]) -> Result<Config, String> {
    let mut sources = Sources::new();
    for (name, value) in flags {
        sources = sources.flag(name, value)?;
    }
    sources.config()
}

#[test]
fn the_default_is_embedded_and_shows_its_codes() {
    let config = flags(&[]).expect("defaults are valid");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.redis, "embedded:./seawall-data");
    assert_eq!(config.database, Database::Sqlite("./seawall-data/market.db".into()));
    assert_eq!(config.sms, Sms::Echo);
    assert!(config.demo);
}

#[test]
fn a_real_store_turns_echo_off_unless_asked_for() {
    let real = ("redis", "redis://127.0.0.1:6379");
    assert_eq!(flags(&[real]).expect("valid").sms, Sms::Log);
    assert_eq!(flags(&[real, ("sms", "echo")]).expect("valid").sms, Sms::Echo);
}

#[test]
fn mistakes_name_setting_value_and_what_is_allowed() {
    let mistake = |name, value| flags(&[(name, value)]).expect_err("a mistake");
    assert_eq!(
        mistake("listen", "8080"),
        "--listen cannot be '8080': it takes an address with a port, such as 127.0.0.1:8080"
    );
    assert_eq!(mistake("sms", "pigeon"), "--sms cannot be 'pigeon': it takes log or echo");
    assert!(mistake("database", "mysql://h/d").contains("(a user is missing)"));
    assert!(mistake("database", "mysql://me@h").contains("a name is missing"));
    assert!(mistake("database", "postgres://me@h/d").contains("mysql://USER@HOST:PORT/NAME"));
    assert!(mistake("admin-phone", "12").contains("eleven digits"));
    assert!(mistake("shop-cache", "magic").contains("lease, mutex or logical"));
    assert!(mistake("unpaid-after", "0").contains("from 1"));
    assert!(mistake("orders-per-second", "0").contains("from 1 to 1000000"));
    assert!(mistake("trusted-proxies", "nginx").contains("127.0.0.1"));
    assert!(mistake("database", "sqlite:").contains("sqlite:PATH"));
    assert!(mistake("demo", "maybe").contains("true or false"));
    assert!(mistake("zone", "Mars/Olympus").contains("Asia/Shanghai"));
    assert!(mistake("log", "loud").contains("error, warn, info"));
    assert!(mistake("code-ip-hourly", "0").contains("from 1"));
    assert!(mistake("redis-password-file", "/no/such").contains("/no/such"));
}

#[test]
fn a_password_in_an_argument_is_refused_and_not_repeated() {
    for url in ["redis://:geheim@h", "redis://me:geheim@h:1/2", "redis-cluster://u:geheim@a:1,b:2"]
    {
        let sentence = flags(&[("redis", url)]).expect_err("a password");
        assert!(sentence.contains("SEAWALL_REDIS_PASSWORD"), "{sentence}");
        assert!(sentence.contains("--redis-password-file"), "{sentence}");
        assert!(!sentence.contains("geheim"), "{sentence}");
    }
    assert!(flags(&[("redis", "redis://me@h:1")]).is_ok(), "a user alone is no secret");
    let environment = [("SEAWALL_REDIS".to_owned(), "redis://:x@h".to_owned())];
    assert!(Sources::new().environment(environment.into_iter()).config().is_ok());
}

#[test]
fn the_databases_password_comes_from_the_environment_or_a_file_and_is_never_shown() {
    let said = flags(&[("database", "mysql://me:geheim@h/d")]).expect_err("a password");
    assert!(said.contains("--database-password-file") && !said.contains("geheim"), "{said}");
    let environment = [("SEAWALL_DATABASE_PASSWORD".to_owned(), "p@ss/wort".to_owned())];
    let sources = Sources::new().environment(environment.into_iter());
    let config = sources.flag("database", "mysql://me@h:3306/d").expect("known").config();
    let config = config.expect("valid");
    let url = "mysql://me:p%40ss%2Fwort@h:3306/d";
    assert_eq!(config.database, Database::Mysql(Secret::new(url)));
    assert_eq!(config.database.to_string(), "mysql://me@h:3306/d");
    assert_eq!(format!("{:?}", config.database), "Mysql(Secret)");
    assert_eq!(config.sms, Sms::Log, "a real store");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("seawall.toml");
    fs::write(&path, "listen = \"127.0.0.1:1\"\nsms = \"log\"\ncode-ip-hourly = 3\ndemo = false\n")
        .expect("written");
    let environment = [
        ("SEAWALL_LISTEN".to_owned(), "127.0.0.1:2".to_owned()),
        ("SEAWALL_CODE_IP_HOURLY".to_owned(), "4".to_owned()),
    ];
    let sources =
        Sources::new().file(&path).expect("a good file").environment(environment.into_iter());
    let config = sources.flag("listen", "127.0.0.1:3").expect("known").config().expect("valid");
    assert_eq!(config.listen.port(), 3);
    assert_eq!((config.code_ip_hourly, config.sms, config.demo), (4, Sms::Log, false));

    fs::write(&path, "unpaid-after = 1.5\n").expect("written");
    let sentence = Sources::new().file(&path).expect("plain").config().expect_err("no number");
    assert!(sentence.contains("unpaid-after") && sentence.contains("1.5"), "{sentence}");
    for (value, demo) in [("1", false), ("true", false), ("false", true)] {
        let named = [("SEAWALL_NO_DEMO".to_owned(), value.to_owned())];
        let config = Sources::new().environment(named.into_iter()).config().expect("valid");
        assert_eq!(config.demo, demo);
    }

    fs::write(&path, "lisen = \"127.0.0.1:1\"").expect("written");
    let odd = [("SEAWALL_LISEN", "x"), ("SEAWALL_REDIS_PASSWORD", "x"), ("HOME", "/")];
    let odd = odd.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sources = Sources::new().environment(odd.into_iter());
    assert_eq!(sources.oddities(), ["SEAWALL_LISEN is set, but there is no such setting"]);

    let mistake = Sources::new().file(&path).expect_err("a mistake");
    assert!(mistake.contains("lisen is not a setting; there are listen, redis"), "{mistake}");
}

#[test]
fn big_keys_are_looked_for_at_night_unless_that_is_off() {
    let at = |value| flags(&[("big-keys-at", value)]).map(|config| config.big_keys.at);
    let half_past_three = jiff::civil::time(3, 30, 0, 0);
    assert_eq!(flags(&[]).expect("valid").big_keys.at, Some(half_past_three));
    assert_eq!(at("23:05").expect("valid"), Some(jiff::civil::time(23, 5, 0, 0)));
    assert_eq!(at("off").expect("valid"), None);
    let said = at("25:00").expect_err("no time of day");
    assert!(said.contains("such as 03:30, or off"), "{said}");
    let said = flags(&[("big-keys-hook", "https://h/secret")]).expect_err("no TLS client");
    assert!(said.contains("relay") && !said.contains("secret"), "{said}");
    assert!(flags(&[("big-keys-rate", "0")]).is_err());
}
