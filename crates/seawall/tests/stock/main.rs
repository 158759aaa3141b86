//! Flash sales and inventories: on every backend, under faults, and against models.

mod bugs;
mod chaos;
mod inventory;
mod layout;
mod ledger;
mod model;
mod sale;
mod sale_repair;
mod setup;
