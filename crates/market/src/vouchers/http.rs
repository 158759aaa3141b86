//! Routes for vouchers.

use axum::extract::State;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Draft, Kind, SaleDraft, Voucher};
use crate::{
    app::Shared,
    http::{Answer, Envelope, Id, JsonBody, Named, PathId, Refusal, SignedIn},
    submissions::{Kind as Submitted, Submission},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(flash_list))
        .routes(routes!(list))
        .routes(routes!(create))
        .routes(routes!(create_flash))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct VoucherView {
    id: Id,
    shop_id: Id,
    title: String,
    sub_title: String,
    rules: String,
    pay_value: i64,
    actual_value: i64,
    /// 0: sold at any time, 1: sold in a flash sale.
    r#type: u8,
    /// Units left; only for flash sales, like the next two fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    stock: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    begin_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    end_time: Option<String>,
}

impl VoucherView {
    fn new(voucher: Voucher, zone: &TimeZone) -> Self {
        let sale = match voucher.kind {
            Kind::Normal => None,
            Kind::Flash(sale) => Some(sale),
        };
        VoucherView {
            id: Id(voucher.id),
            shop_id: Id(voucher.shop_id),
            title: voucher.title,
            sub_title: voucher.sub_title,
            rules: voucher.rules,
            pay_value: voucher.pay_value,
            actual_value: voucher.actual_value,
            r#type: u8::from(sale.is_some()),
            stock: sale.map(|sale| sale.stock),
            begin_time: sale.map(|sale| rfc3339(zone, sale.begin_time)),
            end_time: sale.map(|sale| rfc3339(zone, sale.end_time)),
        }
    }

    fn list(vouchers: Vec<Voucher>, zone: &TimeZone) -> Envelope<Vec<Self>> {
        let views: Vec<_> = vouchers.into_iter().map(|one| VoucherView::new(one, zone)).collect();
        views.into()
    }
}

/// Return the flash sales that end last, including past ones.
#[utoipa::path(get, path = "/voucher/seckill/list", tag = "vouchers",
    responses((status = 200, body = Envelope<Vec<VoucherView>>)))]
async fn flash_list(State(app): State<Shared>) -> Answer<Vec<VoucherView>> {
    Ok(VoucherView::list(app.vouchers().flash_sales().await?, &app.config().zone))
}

/// Return the vouchers of a shop, the newest first.
#[utoipa::path(get, path = "/voucher/list/{shopId}", tag = "vouchers",
    params(("shopId" = Id, Path)),
    responses((status = 200, body = Envelope<Vec<VoucherView>>)))]
async fn list(State(app): State<Shared>, PathId(shop): PathId) -> Answer<Vec<VoucherView>> {
    app.shops().read(shop).await?;
    Ok(VoucherView::list(app.vouchers().of_shop(shop).await?, &app.config().zone))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewVoucher {
    /// A shop of the caller.
    shop_id: Id,
    #[schema(min_length = 1, max_length = 255)]
    title: String,
    #[serde(default)]
    #[schema(max_length = 255)]
    sub_title: String,
    #[serde(default)]
    #[schema(max_length = 1024)]
    rules: String,
    /// Price in cents.
    #[schema(minimum = 0, maximum = 100_000_000)]
    pay_value: i64,
    /// Value in cents.
    #[schema(minimum = 0, maximum = 100_000_000)]
    actual_value: i64,
}

impl NewVoucher {
    fn draft(&self) -> Draft<'_> {
        Draft {
            shop_id: self.shop_id.0,
            title: &self.title,
            sub_title: &self.sub_title,
            rules: &self.rules,
            pay_value: self.pay_value,
            actual_value: self.actual_value,
        }
    }
}

/// Add a voucher that is sold at any time.
///
/// Returns its id. Only for the shop's merchant and admins. A request repeated with the same key
/// adds one voucher.
#[utoipa::path(post, path = "/voucher", tag = "vouchers", request_body = NewVoucher,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the submission, so that it may be repeated for a day")),
    security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 403, description = "It is not your shop.", body = Refusal<'static>),
        (status = 404, description = "There is no such shop.", body = Refusal<'static>),
        (status = 409, description = "IDEMPOTENCY_KEY_REUSED with the other voucher in `data`",
            body = Refusal<'static>)))]
async fn create(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(new): JsonBody<NewVoucher>,
) -> Answer<Id> {
    app.shops().may_change(&user, new.shop_id.0).await?;
    let kind = Submitted::Voucher { shop: new.shop_id.0 };
    let submission = Submission { user: user.id, kind, key: key.as_ref() };
    Ok(Id(app.vouchers().create(new.draft(), submission).await?).into())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewFlashSale {
    #[serde(flatten)]
    voucher: NewVoucher,
    #[schema(minimum = 1, maximum = 1_000_000)]
    stock: i64,
    #[schema(format = DateTime, example = "2026-01-31T20:00:00+08:00")]
    begin_time: String,
    /// Must be after `beginTime`.
    #[schema(format = DateTime, example = "2026-01-31T21:00:00+08:00")]
    end_time: String,
}

/// Add a voucher with a flash sale.
///
/// Returns its id. Only for the shop's merchant and admins. A request repeated with the same key
/// adds one voucher.
#[utoipa::path(post, path = "/voucher/seckill", tag = "vouchers", request_body = NewFlashSale,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the submission, so that it may be repeated for a day")),
    security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 403, description = "It is not your shop.", body = Refusal<'static>),
        (status = 404, description = "There is no such shop.", body = Refusal<'static>),
        (status = 409, description = "IDEMPOTENCY_KEY_REUSED with the other voucher in `data`",
            body = Refusal<'static>)))]
async fn create_flash(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(new): JsonBody<NewFlashSale>,
) -> Answer<Id> {
    app.shops().may_change(&user, new.voucher.shop_id.0).await?;
    let sale = SaleDraft { stock: new.stock, begin_time: &new.begin_time, end_time: &new.end_time };
    let kind = Submitted::FlashSale { shop: new.voucher.shop_id.0 };
    let submission = Submission { user: user.id, kind, key: key.as_ref() };
    let id = app.vouchers().create_flash(new.voucher.draft(), sale, submission).await?;
    // The sale is in the database: the first buyer would open it as well.
    if let Err(error) = app.sales().open(id).await {
        tracing::warn!(voucher = id, %error, "a new sale is not open yet");
    }
    Ok(Id(id).into())
}
