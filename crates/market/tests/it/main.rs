//! The market's API, on SQLite with the embedded engine, and on MariaDB with redis-server.

mod accounts;
mod big_keys;
mod bounds;
mod cart;
mod checkins;
mod feed;
mod follows;
mod goods;
mod goods_orders;
mod home;
mod http;
mod inventory;
mod likes;
mod market;
mod nearby;
mod notes;
mod profile;
mod sales;
mod sales_life;
mod sales_repair;
mod sales_workers;
mod shops;
mod stats;
mod strangers;
mod uploads;
mod vouchers;
