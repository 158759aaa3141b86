//! Flash sales and inventories: on every backend, under faults, and against models.

mod answered;
mod beyond;
mod bugs;
mod campaign;
mod chaos;
mod check;
mod closed;
mod doubt;
mod ended;
#[path = "../support/eventually.rs"]
mod eventually;
mod histories;
mod inventory;
mod layout;
mod ledger;
mod model;
mod planned;
mod rebuilding;
mod receiving;
mod sale;
mod sale_repair;
#[path = "../support/setup.rs"]
mod setup;
mod verified;
