//! What one GET costs inside the process: through redis-rs, and through the bare stream.
//!
//! ```text
//! cargo run --release -p seawall-server --example in_process_latency
//! ```

#![expect(clippy::print_stdout, reason = "printing its figures is what this example is for")]

use std::time::{Duration, Instant};

use redis::{
    AsyncCommands, AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection,
};
use seawall_server::{Config, Handle, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Builder,
    task::JoinSet,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROUNDS: u32 = 200_000;
const TASKS: u32 = 64;

fn main() -> Result<()> {
    let server = Server::start(Config::default())?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let bare = runtime.block_on(bare(&server))?;
    println!("bare stream, one GET at a time:   {:>6} ns", per_round(bare));
    let single = runtime.block_on(through_client(&server, 1))?;
    println!("redis-rs, one GET at a time:      {:>6} ns", per_round(single));
    let many = runtime.block_on(through_client(&server, TASKS))?;
    println!("redis-rs, {TASKS} tasks:               {:>6} ns", per_round(many));
    server.shutdown()?;
    Ok(())
}

fn per_round(elapsed: Duration) -> u128 {
    elapsed.as_nanos() / u128::from(ROUNDS)
}

async fn bare(server: &Handle) -> Result<Duration> {
    let mut stream = server.connect();
    let mut reply = [0; 64];
    stream.write_all(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n").await?;
    stream.read_exact(&mut reply[..5]).await?;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        stream.write_all(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n").await?;
        stream.read_exact(&mut reply[..11]).await?;
    }
    Ok(start.elapsed())
}

async fn through_client(server: &Handle, tasks: u32) -> Result<Duration> {
    let info = RedisConnectionInfo::default();
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&info, server.connect(), config).await?;
    let driver = tokio::spawn(driver);
    let () = connection.set("key", "value").await?;
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..tasks {
        let mut connection = connection.clone();
        workers.spawn(async move {
            for _ in 0..ROUNDS / tasks {
                let _: String = connection.get("key").await?;
            }
            Ok::<(), redis::RedisError>(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let elapsed = start.elapsed();
    drop(connection);
    driver.await?;
    Ok(elapsed)
}
