//! The engine inside your own process, through redis-rs, without any socket.
//!
//! ```text
//! cargo run -p seawall-server --example in_process
//! ```

use redis::{
    AsyncCommands, AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection,
};
use seawall_server::{Config, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The default configuration listens nowhere: this process is the only client.
    let server = Server::start(Config::default())?;

    // A stream of ours, a client of redis-rs. The driver moves the bytes.
    let info = RedisConnectionInfo::default();
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&info, server.connect(), config).await?;
    let driver = tokio::spawn(driver);

    let () = connection.set("greeting", "hello").await?;
    let greeting: String = connection.get("greeting").await?;
    assert_eq!(greeting, "hello");
    let visits: i64 = connection.incr("visits", 1).await?;
    assert_eq!(visits, 1);

    drop(connection);
    driver.await?;
    server.shutdown()?;
    Ok(())
}
