//! GCRA: a rate with a burst, from one meter and no timers.
//!
//! The generic cell rate algorithm has two equivalent forms. The better known one keeps the
//! *theoretical arrival time* of the next cell. This one keeps a level that drains steadily and the
//! time at which it was read (the leaky bucket as a meter): `arrival time = time + level / count`.
//! It is chosen because it is exact in whole numbers: one unit of cost adds `period`, a microsecond
//! drains `count`, and 3 a second do not turn into an interval of 333,333 µs. And when the server's
//! clock steps back, a level continues from the new time, whereas an arrival time would be in the
//! future for as long as the step. The token bucket of `seawall-resilience` keeps the arrival time,
//! because that fits into one atomic word; it has no script to agree with.
//!
//! Invariant: `level ≤ burst · period ≤ 2^52`.

use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{decision::Decision, policy::MAX_EXACT};

static CHECK: Script = Script::with_time(include_str!("gcra.lua"));

/// A rate in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gcra {
    /// Level that drains in a microsecond.
    count: u64,
    /// Level that one unit of cost adds.
    period: u64,
    /// Units of cost that fit.
    pub(super) burst: u64,
}

/// The level of a meter, and the time at which it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Meter {
    time: u64,
    level: u64,
}

impl Gcra {
    /// Creates a rate of `count` in `period_micros`, divided among `instances`.
    pub(super) fn new(count: u64, period_micros: u64, burst: u64, instances: u64) -> Result<Self> {
        if count == 0 || burst == 0 {
            return Err(Error::Invalid(
                "a rate of 0 or a burst of 0 would never allow anything".into(),
            ));
        }
        let too_fine = || {
            Error::Invalid(format!(
                "{count} in {period_micros} µs with a burst of {burst} cannot be counted exactly: \
                 make the burst or the period smaller"
            ))
        };
        let period = period_micros.checked_mul(instances).ok_or_else(too_fine)?;
        let common = gcd(count, period);
        let (count, period) = (count / common, period / common);
        let capacity = burst.checked_mul(period).filter(|capacity| *capacity <= MAX_EXACT);
        if capacity.is_none() || count > MAX_EXACT {
            return Err(too_fine());
        }
        Ok(Gcra { count, period, burst })
    }

    /// Returns the script call for this rate.
    pub(super) fn call(&self, key: &[u8], cost: u64) -> ScriptInvocation {
        CHECK.on(&[key]).arg(self.count).arg(self.period).arg(self.burst).arg(cost)
    }

    /// Charges `cost` if there is room: does what the script does, on a meter in memory.
    pub(super) fn check(&self, meter: &mut Meter, now: u64, cost: u64) -> Decision {
        let level = self.level(meter, now);
        let capacity = self.burst * self.period;
        // Saturating is exact enough: the result is beyond the capacity in any case.
        let wanted = level.saturating_add(cost.saturating_mul(self.period));
        if wanted > capacity {
            return Decision::limited((wanted - capacity).div_ceil(self.count));
        }
        *meter = Meter { time: now, level: wanted };
        Decision::allowed((capacity - wanted) / self.period, wanted.div_ceil(self.count))
    }

    /// Charges a cost that was admitted elsewhere, as far as there is room.
    pub(super) fn charge(&self, meter: &mut Meter, now: u64, cost: u64) {
        let level = self.level(meter, now).saturating_add(cost.saturating_mul(self.period));
        *meter = Meter { time: now, level: level.min(self.burst * self.period) };
    }

    /// Returns the time at which the meter is empty, which is equivalent to no meter.
    pub(super) fn idle_at(&self, meter: &Meter) -> u64 {
        meter.time.saturating_add(meter.level.div_ceil(self.count))
    }

    fn level(&self, meter: &Meter, now: u64) -> u64 {
        let drained = now.saturating_sub(meter.time).saturating_mul(self.count);
        meter.level.saturating_sub(drained)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_a_second_are_three_a_second() {
        let rate = Gcra::new(3, 1_000_000, 1, 1).expect("valid");
        let mut meter = Meter::default();
        let mut admitted = 0;
        for now in 10_000_000..70_000_000u64 {
            if rate.check(&mut meter, now, 1).is_allowed() {
                admitted += 1;
            }
        }
        assert_eq!(admitted, 180, "60 s at 3 a second, asked each microsecond");
    }

    #[test]
    fn values_are_exact() {
        let rate = Gcra::new(10, 1_000_000, 5, 1).expect("valid");
        let mut meter = Meter::default();
        assert_eq!(rate.check(&mut meter, 0, 3), Decision::allowed(2, 300_000));
        assert_eq!(rate.check(&mut meter, 0, 3), Decision::limited(100_000));
        assert_eq!(rate.check(&mut meter, 99_999, 3), Decision::limited(1));
        assert_eq!(rate.check(&mut meter, 100_000, 3), Decision::allowed(0, 500_000));
        assert_eq!(rate.check(&mut meter, 100_000, 0), Decision::allowed(0, 500_000));
    }

    #[test]
    fn a_clock_that_steps_back_costs_no_more_than_the_burst() {
        let rate = Gcra::new(1, 1_000_000, 2, 1).expect("valid");
        let mut meter = Meter::default();
        assert!(rate.check(&mut meter, 9_000_000_000, 2).is_allowed());
        assert_eq!(rate.check(&mut meter, 5, 1), Decision::limited(1_000_000));
        rate.charge(&mut meter, 5, 1);
        assert!(rate.check(&mut meter, 2_000_005, 2).is_allowed());
    }

    #[test]
    fn shares_are_a_part_of_the_rate() {
        let rate = Gcra::new(10, 1_000_000, 2, 4).expect("valid");
        assert_eq!((rate.count, rate.period), (1, 400_000));
    }
}
