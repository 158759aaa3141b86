//! What the market is compared with: axum alone, answering the same bytes, or running one script.
//!
//! `seawall-bench bare REDIS_URL FILE` listens on a free port, prints its address, and serves until
//! it is ended: `GET /shop` answers the file, `POST /order/USER/VOUCHER` runs one EVALSHA of the size
//! of a flash sale's (four keys in one slot, five arguments: check, take, note the buyer, append to a
//! stream) and answers an id.

use std::{error::Error, io::Write as _, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use redis::{Client, aio::MultiplexedConnection};
use serde_json::json;
use tokio::net::TcpListener;

const RESERVE: &str = "
local left = tonumber(redis.call('HGET', KEYS[1], 'stock') or ARGV[4])
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2]) == 0 then return {'DUPLICATE'} end
if left < 1 then return {'SOLD_OUT'} end
redis.call('HSET', KEYS[1], 'stock', left - 1)
redis.call('XADD', KEYS[3], '*', 'order', ARGV[2], 'user', ARGV[1], 'voucher', ARGV[3])
redis.call('HSET', KEYS[4], ARGV[2], ARGV[1] .. ':' .. ARGV[3])
return {'RESERVED', ARGV[5]}";

struct Bare {
    redis: MultiplexedConnection,
    script: String,
    shop: Bytes,
}

pub(crate) async fn serve(url: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let mut redis = Client::open(url)?.get_multiplexed_async_connection().await?;
    let script = redis::cmd("SCRIPT").arg("LOAD").arg(RESERVE).query_async(&mut redis).await?;
    let shop = Bytes::from(std::fs::read(file)?);
    let router = Router::new()
        .route("/shop", get(read))
        .route("/order/{user}/{voucher}", post(order))
        .with_state(Arc::new(Bare { redis, script, shop }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    axum::serve(listener, router).await?;
    Ok(())
}

async fn read(State(bare): State<Arc<Bare>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bare.shop.clone()).into_response()
}

async fn order(
    State(bare): State<Arc<Bare>>,
    Path((user, voucher)): Path<(u64, u64)>,
) -> Result<Response, StatusCode> {
    let id = voucher << 32 | user;
    let key = |name: &str| format!("{{bare:{}}}:{name}:{voucher}", voucher % 16);
    let mut call = redis::cmd("EVALSHA");
    call.arg(&bare.script).arg(4).arg(key("voucher")).arg(key("buyers"));
    call.arg(key("orders"))
        .arg(key("queued"))
        .arg(user)
        .arg(id)
        .arg(voucher)
        .arg(1_000_000)
        .arg(id);
    let reply: Vec<String> = call
        .query_async(&mut bare.redis.clone())
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    match reply.first().map(String::as_str) {
        Some("RESERVED") => Ok(Json(json!({
            "success": true, "code": "OK", "msg": "", "data": id.to_string()
        }))
        .into_response()),
        _ => Err(StatusCode::CONFLICT),
    }
}
