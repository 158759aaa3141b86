//! Routes of vouchers.

use axum::extract::State;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{FlashVoucher, store};
use crate::{
    app::Shared,
    http::{Answer, Envelope, Id},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FlashVoucherView {
    id: Id,
    shop_id: Id,
    title: String,
    sub_title: String,
    rules: String,
    pay_value: i64,
    actual_value: i64,
    stock: i64,
    begin_time: String,
    end_time: String,
}

impl FlashVoucherView {
    fn new(voucher: FlashVoucher, zone: &TimeZone) -> Self {
        FlashVoucherView {
            id: Id(voucher.id),
            shop_id: Id(voucher.shop_id),
            title: voucher.title,
            sub_title: voucher.sub_title,
            rules: voucher.rules,
            pay_value: voucher.pay_value,
            actual_value: voucher.actual_value,
            stock: voucher.stock,
            begin_time: rfc3339(zone, voucher.begin_time),
            end_time: rfc3339(zone, voucher.end_time),
        }
    }
}

/// The flash sales that end last, past ones included.
#[utoipa::path(get, path = "/voucher/seckill/list", tag = "vouchers",
    responses((status = 200, body = Envelope<Vec<FlashVoucherView>>)))]
async fn list(State(app): State<Shared>) -> Answer<Vec<FlashVoucherView>> {
    let sales = store::flash_sales(app.db()).await?;
    let zone = &app.config().zone;
    Ok(sales.into_iter().map(|sale| FlashVoucherView::new(sale, zone)).collect::<Vec<_>>().into())
}
