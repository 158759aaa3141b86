//! Sessions, on every backend and on a clock held by the test.

mod behaviour;
mod campaign;
#[path = "../support/campaign.rs"]
mod campaign_support;
#[path = "../support/chance.rs"]
mod chance;
mod logins;
#[path = "../support/setup.rs"]
mod setup;
