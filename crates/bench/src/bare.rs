//! The baseline for the market: axum alone, answering the same bytes, or running one script.
//!
//! `seawall-bench bare REDIS_URL FILE` listens on a free port, prints its address, and serves until
//! it is killed. `GET /shop` answers with the file. `POST /order/USER/VOUCHER` runs one EVALSHA,
//! the toolkit's own flash-sale script with keys and arguments as the market has them, and answers
//! with an id.

use std::{error::Error, io::Write as _, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use redis::{Client, RedisResult, aio::MultiplexedConnection};
use serde_json::json;
use tokio::net::TcpListener;

/// The same script as the market, so both sides pay its cost on the server.
static RESERVE: seawall::Script =
    seawall::Script::with_time(include_str!("../../stock/src/script/sale_reserve.lua"));
/// Streams over which sales are spread; the limits are larger than anything sold or waiting here.
const STREAMS: u64 = 16;
const PLENTY: u64 = 1 << 40;

struct Bare {
    redis: MultiplexedConnection,
    script: String,
    shop: Bytes,
}

pub(crate) async fn serve(url: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let mut redis = Client::open(url)?.get_multiplexed_async_connection().await?;
    let script =
        redis::cmd("SCRIPT").arg("LOAD").arg(RESERVE.text()).query_async(&mut redis).await?;
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
    let mut redis = bare.redis.clone();
    let refused = |_| StatusCode::SERVICE_UNAVAILABLE;
    let mut reply = bare.reserve(&mut redis, (user, voucher), id).await.map_err(refused)?;
    if reply.first().is_some_and(|word| word == "UNKNOWN") {
        open(&mut redis, voucher).await.map_err(refused)?;
        reply = bare.reserve(&mut redis, (user, voucher), id).await.map_err(refused)?;
    }
    match reply.first().map(String::as_str) {
        Some("RESERVED") => Ok(Json(json!({
            "success": true, "code": "OK", "msg": "", "data": id.to_string()
        }))
        .into_response()),
        _ => Err(StatusCode::CONFLICT),
    }
}

impl Bare {
    async fn reserve(
        &self,
        redis: &mut MultiplexedConnection,
        (user, voucher): (u64, u64),
        id: u64,
    ) -> RedisResult<Vec<String>> {
        let (stream, sale) = keys(voucher);
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.script).arg(5).arg(&sale);
        call.arg(format!("{sale}:buyers")).arg(format!("{sale}:receipts"));
        call.arg(&stream).arg(format!("{stream}:waiting"));
        call.arg(user).arg(id).arg(PLENTY).arg("voucher").arg(voucher);
        call.query_async(redis).await
    }
}

/// Returns the keys of a voucher's stream and sale.
fn keys(voucher: u64) -> (String, String) {
    let stream = format!("sale:{{bare:{}}}", voucher % STREAMS);
    let sale = format!("{stream}:{voucher}");
    (stream, sale)
}

async fn open(redis: &mut MultiplexedConnection, voucher: u64) -> RedisResult<()> {
    let (far, sale) = (i64::MAX / 1_000_000, keys(voucher).1);
    let mut call = redis::cmd("HSET");
    call.arg(sale).arg("state").arg("open").arg("left").arg(PLENTY).arg("begin").arg(0);
    call.arg("end").arg(far).arg("gone").arg(far).exec_async(redis).await
}
