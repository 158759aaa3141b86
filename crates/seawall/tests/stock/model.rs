//! Random movements with lost replies, compared with a model that has one number and no shards.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use seawall::{
    stock::{Held, Inventory, Levels, Received, Reference, Settled, Standing},
    testing::TestServer,
};
use tokio::runtime::Runtime;

const LIFETIME: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
enum Step {
    Receive(u8, u64),
    Hold(u8, u64),
    SellNow(u8, u64),
    Sell(u8),
    Release(u8),
    TakeBack(u8),
    /// So long that everything held goes back.
    Wait,
    /// The next replies are lost.
    Lose(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..12u8;
    prop_oneof![
        1 => (0..4u8, 0..9u64).prop_map(|(receipt, units)| Step::Receive(receipt, units)),
        4 => (name.clone(), 1..6u64).prop_map(|(name, units)| Step::Hold(name, units)),
        2 => (name.clone(), 1..6u64).prop_map(|(name, units)| Step::SellNow(name, units)),
        3 => name.clone().prop_map(Step::Sell),
        2 => name.clone().prop_map(Step::Release),
        1 => name.prop_map(Step::TakeBack),
        1 => Just(Step::Wait),
        1 => (1..3u64).prop_map(Step::Lose),
    ]
}

/// What should be.
#[derive(Default)]
struct Model {
    receipts: BTreeMap<u8, u64>,
    references: BTreeMap<u8, (Standing, u64)>,
    levels: Levels,
}

impl Model {
    fn standing(&self, name: u8) -> (Standing, u64) {
        self.references.get(&name).copied().unwrap_or((Standing::Unknown, 0))
    }

    fn take(&mut self, name: u8, units: u64, to: Standing) -> Option<(Standing, u64)> {
        match self.standing(name) {
            (Standing::Unknown, _) if self.levels.left < units => return None,
            (Standing::Unknown, _) => {
                self.levels.left -= units;
                self.levels.held += units;
                self.references.insert(name, (Standing::Held, units));
            }
            _ => {}
        }
        if to == Standing::Sold {
            self.settle(name, Standing::Held, Standing::Sold);
        }
        Some(self.standing(name))
    }

    fn settle(&mut self, name: u8, from: Standing, to: Standing) -> (Standing, u64) {
        let (standing, units) = self.standing(name);
        if standing == from {
            match from {
                Standing::Sold => self.levels.sold -= units,
                _ => self.levels.held -= units,
            }
            match to {
                Standing::Sold => self.levels.sold += units,
                _ => self.levels.left += units,
            }
            self.references.insert(name, (to, units));
        } else if standing == Standing::Unknown && to == Standing::Released {
            self.references.insert(name, (Standing::Released, 0));
            return (Standing::Unknown, 0);
        }
        self.standing(name)
    }
}

struct Theatre {
    runtime: Runtime,
    test_server: TestServer,
    case: Cell<u64>,
}

fn agrees(held: &Held, expected: Option<(Standing, u64)>, left: u64) -> bool {
    match (held, expected) {
        (Held::SoldOut { left: said }, None) => *said == left,
        (Held::Held(hold), Some((Standing::Held, units))) => hold.units == units,
        (Held::Sold { units }, Some((Standing::Sold, expected))) => *units == expected,
        (Held::Over(standing), Some((expected, _))) => *standing == expected,
        _ => false,
    }
}

/// A refusal after a lost reply is unknown: the request that was lost may still arrive. Asked again, it is
/// known.
async fn repeated(ask: impl AsyncFn() -> seawall::Result<Held>) -> seawall::Result<Held> {
    match ask().await {
        Err(error) if error.is_indeterminate() => ask().await,
        answer => answer,
    }
}

async fn play(
    test_server: &TestServer,
    stock: &Inventory,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let reference = |name: u8| Reference::new(format!("ref-{name}")).expect("valid");
    let settled = |answer: Settled, (standing, units): (Standing, u64), to: Standing| match answer {
        // What was noted by a first sending, whose reply was lost, is found by the second.
        Settled::Before { units: 0 } if standing == Standing::Unknown => to == Standing::Released,
        Settled::Now { units: said } | Settled::Before { units: said } => {
            standing == to && said == units
        }
        Settled::Not(said) => said == standing && said != to,
        _ => false,
    };
    for step in steps {
        let ok = match *step {
            Step::Receive(receipt, units) => {
                let answer = stock.receive(&format!("receipt-{receipt}"), units).await?;
                match model.receipts.get(&receipt) {
                    // A receipt of nothing leaves no trace.
                    Some(before) if *before != units && *before > 0 && units > 0 => {
                        answer == Received::Differs { units: *before }
                    }
                    Some(before) if *before > 0 => {
                        answer == Received::Complete { added: 0 } || units == 0
                    }
                    _ => {
                        model.receipts.insert(receipt, units);
                        model.levels.received += units;
                        model.levels.left += units;
                        matches!(answer, Received::Complete { .. })
                    }
                }
            }
            Step::Hold(name, units) => {
                let left = model.levels.left;
                let answer =
                    repeated(async || stock.hold(&reference(name), units, LIFETIME).await).await?;
                agrees(&answer, model.take(name, units, Standing::Held), left)
            }
            Step::SellNow(name, units) => {
                let left = model.levels.left;
                let answer =
                    repeated(async || stock.sell_now(&reference(name), units).await).await?;
                agrees(&answer, model.take(name, units, Standing::Sold), left)
            }
            Step::Sell(name) => {
                let answer = stock.sell(&reference(name)).await?;
                let expected = model.settle(name, Standing::Held, Standing::Sold);
                settled(answer, expected, Standing::Sold)
            }
            Step::Release(name) => {
                let answer = stock.release(&reference(name)).await?;
                let expected = model.settle(name, Standing::Held, Standing::Released);
                settled(answer, expected, Standing::Released)
            }
            Step::TakeBack(name) => {
                let answer = stock.take_back(&reference(name)).await?;
                let expected = model.settle(name, Standing::Sold, Standing::TakenBack);
                settled(answer, expected, Standing::TakenBack)
            }
            Step::Wait => {
                test_server.faults().lose_replies(0);
                test_server.advance(LIFETIME * 2).await;
                let _ = stock.sweep().await?;
                for name in 0..12 {
                    if model.standing(name).0 == Standing::Held {
                        model.settle(name, Standing::Held, Standing::Expired);
                    }
                }
                true
            }
            Step::Lose(count) => {
                test_server.faults().lose_replies(count);
                true
            }
        };
        prop_assert!(ok, "{step:?}");
        if !matches!(step, Step::Lose(_)) {
            test_server.faults().lose_replies(0);
            let audit = stock.audit().await?;
            prop_assert!(audit.is_conserved() && audit.is_complete(), "{step:?} {audit:?}");
            prop_assert_eq!(audit.total(), model.levels, "{:?}", step);
        }
    }
    Ok(())
}

impl Theatre {
    fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let test_server = runtime.block_on(TestServer::start()).expect("it starts");
        Theatre { runtime, test_server, case: Cell::new(0) }
    }
}

#[test]
fn an_inventory_answers_as_one_number_would() {
    let theatre = Theatre::open();
    let cases = if std::env::var_os("SEAWALL_SOAK").is_some() { 2_000 } else { 100 };
    let config = ProptestConfig { cases, ..ProptestConfig::default() };
    proptest!(config, |(shards in 1..5usize, steps in proptest::collection::vec(step(), 1..40))| {
        theatre.case.set(theatre.case.get() + 1);
        theatre.test_server.faults().lose_replies(0);
        theatre.runtime.block_on(async {
            let builder = theatre.test_server.seawall().inventory(&theatre.case.get());
            let stock = builder.shards(shards).sweep_interval(LIFETIME * 1_000_000).open().await?;
            play(&theatre.test_server, &stock, &steps).await
        })?;
    });
    theatre.runtime.block_on(theatre.test_server.shutdown());
}
