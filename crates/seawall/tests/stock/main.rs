//! Flash sales and inventories: on every backend, under faults, and against models.

mod bugs;
mod chaos;
mod ended;
#[path = "../support/eventually.rs"]
mod eventually;
mod inventory;
mod layout;
mod ledger;
mod model;
mod rebuilding;
mod sale;
mod sale_repair;
#[path = "../support/setup.rs"]
#[expect(dead_code, reason = "keys are asked of the inventory")]
mod setup;
mod vouched;
