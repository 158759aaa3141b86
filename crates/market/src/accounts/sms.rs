//! Delivery of login codes: the interface for a real SMS provider.

use std::{fmt, pin::Pin};

use super::Phone;
use crate::error::Result;

/// Return type of [`SmsSender::send`].
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Delivers a login code.
pub trait SmsSender: fmt::Debug + Send + Sync {
    /// Sends `code` to `phone`.
    fn send<'a>(&'a self, phone: &'a Phone, code: &'a str) -> Sending<'a>;
}

/// Writes codes to the log, for development and trials.
#[derive(Debug, Default)]
pub struct LogSender;

impl SmsSender for LogSender {
    fn send<'a>(&'a self, phone: &'a Phone, code: &'a str) -> Sending<'a> {
        Box::pin(async move {
            tracing::info!(%phone, code, "login code");
            Ok(())
        })
    }
}
