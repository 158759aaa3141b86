//! Login codes: six digits sent by SMS, usable once, with a limited number of tries.
//!
//! A code is valid for two minutes and for [`TRIES`] attempts. Each attempt is counted before the
//! comparison. With five codes an hour, a guesser has 25 attempts an hour against a million codes.
//! Limits fail closed: if Redis does not answer, no code is sent and no code is accepted.
//!
//! Codes do not use the toolkit's sessions. A code is safe because one atomic step counts the try,
//! compares, and consumes the code; no other feature needs that.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use rand::RngExt as _;
use seawall::{
    Client, Script, Seawall,
    limit::{Decision, Limiter, Policy, Rate, WhenAway, Window},
};

use super::{Phone, SmsSender};
use crate::{
    config::Sms,
    error::{Error, Result},
    keys,
};

/// Lifetime of a code.
pub const CODE_LIFETIME: Duration = Duration::from_secs(120);
/// Attempts per code.
pub const TRIES: u32 = 5;

static PUT: Script = Script::new(include_str!("code_put.lua"));
static TAKE: Script = Script::new(include_str!("code_take.lua"));

/// Codes per phone in an hour.
const HOURLY: u64 = 5;
const HOUR: Duration = Duration::from_secs(3600);
/// Mask of the network part (/64) of an IPv6 address, which a subscriber does not choose.
const NETWORK: u128 = (u64::MAX as u128) << 64;
/// Time that a limit check waits for Redis. Login is impossible without Redis, so waiting is
/// worthwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends and checks login codes.
#[derive(Debug)]
pub struct Codes {
    client: Client,
    sender: Arc<dyn SmsSender>,
    mode: Sms,
    limits: Limits,
}

impl Codes {
    pub(crate) fn new(
        seawall: &Seawall,
        sender: Arc<dyn SmsSender>,
        mode: Sms,
        per_ip_hourly: u32,
    ) -> Result<Self> {
        let per_ip = (mode != Sms::Echo).then_some(per_ip_hourly);
        Ok(Codes {
            client: seawall.client().clone(),
            sender,
            mode,
            limits: Limits::new(seawall, per_ip)?,
        })
    }

    /// Sends a new code, which replaces an earlier one.
    ///
    /// Returns the code in echo mode only.
    ///
    /// # Errors
    /// [`Error::Limited`] beyond one code a minute and five an hour per phone, or beyond the limit
    /// per address.
    pub async fn send(&self, phone: &Phone, from: IpAddr) -> Result<Option<String>> {
        self.limits.admit(phone, from).await?;
        // `rand::rng` is cryptographically secure and seeded by the system.
        let code = format!("{:06}", rand::rng().random_range(0..1_000_000));
        let keys = [keys::code(phone.as_str()), keys::code_tries(phone.as_str())];
        let lifetime = u64::try_from(CODE_LIFETIME.as_millis()).unwrap_or(u64::MAX);
        self.client.run(&PUT.on(&keys).arg(&code).arg(lifetime)).await?;
        self.sender.send(phone, &code).await?;
        Ok((self.mode == Sms::Echo).then_some(code))
    }

    /// Consumes a code.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the code is wrong or no longer valid.
    pub async fn take(&self, phone: &Phone, entered: &str) -> Result<()> {
        let keys = [keys::code(phone.as_str()), keys::code_tries(phone.as_str())];
        let outcome: String = self.client.eval(&TAKE.on(&keys).arg(entered).arg(TRIES)).await?;
        match outcome.as_str() {
            "TAKEN" => Ok(()),
            "WRONG" => Err(Error::bad("WRONG_CODE", "the code is wrong")),
            _ => Err(Error::bad("CODE_EXPIRED", "the code is no longer valid; ask for a new one")),
        }
    }
}

/// Rate limits for sending codes.
#[derive(Debug)]
struct Limits {
    by_minute: Limiter,
    by_hour: Limiter,
    by_address: Option<Limiter>,
}

impl Limits {
    fn new(seawall: &Seawall, per_ip_hourly: Option<u32>) -> Result<Self> {
        let limiter = |name: &str, policy: Policy| {
            seawall.limiter(name, policy).when_away(WhenAway::Fail).redis_timeout(PATIENCE).build()
        };
        let by_address = per_ip_hourly
            .map(|count| limiter("login-code-address", Window::of(u64::from(count), HOUR).into()));
        Ok(Limits {
            by_minute: limiter("login-code-minute", Rate::per_minute(1).into())?,
            by_hour: limiter("login-code-hour", Window::of(HOURLY, HOUR).into())?,
            by_address: by_address.transpose()?,
        })
    }

    /// Checks the shortest limit first, so that rapid requests do not use up the longer limits.
    async fn admit(&self, phone: &Phone, from: IpAddr) -> Result<()> {
        check(self.by_minute.check(phone.as_str(), 1).await?)?;
        if let Some(limiter) = &self.by_address {
            check(limiter.check(&subscriber(from), 1).await?)?;
        }
        check(self.by_hour.check(phone.as_str(), 1).await?)
    }
}

/// Returns the key that identifies a subscriber. A subscriber controls at least a whole /64 of IPv6
/// and could send from every address in it, so the /64 counts as one. An IPv4-mapped IPv6 address
/// counts as IPv4.
fn subscriber(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & NETWORK);
            format!("{network}/64")
        }
    }
}

fn check(decision: Decision) -> Result<()> {
    let Some(retry_after) = decision.retry_after() else { return Ok(()) };
    Err(Error::Limited { msg: "too many codes were asked for; wait a little", retry_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_is_one_whatever_address_they_choose() {
        let of = |text: &str| subscriber(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_eq!(of("2001:db8:1:2:ffff:ffff:ffff:ffff"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:3::1"), of("2001:db8:1:2::1"));
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_ne!(of("192.0.2.7"), of("192.0.2.8"));
    }
}
