//! Surveys: big keys live and from files, hot keys, skew.

mod big;
mod ground;
mod hot;
mod rdb;
mod skew;
mod sweep;
