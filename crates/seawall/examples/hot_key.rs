//! A key that everybody reads at once: `cargo run -p seawall --example hot_key`.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Loaded, LocalKeeps},
    hotkey::{HotEvent, HotRule, HotRules},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two processes of a fleet: the second one reaches the engine of the first by its socket.
    let socket = std::env::temp_dir().join(format!("hot-key-{}.sock", std::process::id()));
    let one = Seawall::builder("embedded:").engine_socket(&socket).connect().await?;
    let two = Seawall::connect(&format!("unix:{}", socket.display())).await?;

    // Only hot keys are kept in memory: 500 reads within a second, in both together.
    let build = |seawall: &Seawall| {
        let rules = HotRules::all(HotRule::new(500, Duration::from_secs(1)));
        let goods = seawall.cache("goods").local_keeps(LocalKeeps::HotOnly);
        goods.hot_keys(rules).build()
    };
    let (here, there): (Cache<u64, String>, Cache<u64, String>) = (build(&one)?, build(&two)?);
    two.hot_keys().on_hot(|event| match event {
        HotEvent::Hot(hot) => say(&format!("there: {} is hot, {} reads", hot.key, hot.reads)),
        event => say(&format!("there: {event:?}")),
    });

    // One of them reads, the other one has it.
    let load = || async { Ok::<_, io::Error>(Loaded::Found("tickets".to_owned())) };
    while there.explain(&42).await?.local.is_none() {
        for _ in 0..100 {
            here.get_or_load(&42, load).await?;
        }
    }
    say(&there.explain(&42).await?.to_string());

    // What will be wanted at noon can be held before.
    here.get_or_load(&7, load).await?;
    here.declare_hot(&7, Duration::from_secs(3600)).await?;
    while there.explain(&7).await?.local.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for hot in one.hot_keys().fleet().await? {
        say(&format!("{} is {:?}, read by {} processes", hot.key, hot.reason, hot.sources));
    }
    two.shutdown().await;
    one.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
