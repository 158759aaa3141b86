//! Random settings, small lifetimes, lost replies, restarts and cancellations, round after round; when each
//! has come to rest, every unit is where customers were told that it is.
//!
//! The seed is drawn anew for each run and printed; `SEAWALL_STOCK_SEED` repeats its settings and choices.
//! `SEAWALL_SOAK` makes it ten minutes for each of the two.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use seawall::{
    Error, Seawall,
    stock::{
        CancelOutcome, FlashSale, Held, Inventory, OrderFields, Received, Reference, Reserved,
        SaleWindow, Settled, Standing,
    },
};
use seawall_testkit::{FaultProxy, ServerBuilder, ServerProcess, proxy::On};

use crate::{
    check::{wrong_with_inventory, wrong_with_sale},
    inventory::MINUTE,
};

/// However long it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Settings on which a round goes on.
const ROUND: Duration = Duration::from_millis(2_500);

fn length() -> Duration {
    Duration::from_secs(if std::env::var_os("SEAWALL_SOAK").is_some() { 600 } else { 10 })
}

#[expect(clippy::print_stderr, reason = "a run that fails must be repeatable")]
fn seed(what: &str) -> u64 {
    let given = std::env::var("SEAWALL_STOCK_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    eprintln!("{what}: SEAWALL_STOCK_SEED={seed}");
    seed
}

/// A server that loses nothing when it is killed, two processes that reach it through a proxy.
struct Ground {
    server: ServerProcess,
    proxy: FaultProxy,
    handles: Vec<Seawall>,
}

impl Ground {
    async fn new(rng: &mut StdRng) -> Self {
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = ServerBuilder::redis().args(args).start().expect("redis-server starts");
        let proxy = FaultProxy::start(server.port()).expect("it starts").seeded(rng.random());
        let mut handles = Vec::new();
        for _ in 0..2 {
            let timeout = Duration::from_millis(rng.random_range(150..1_000));
            let builder = Seawall::builder(&proxy.url()).response_timeout(timeout);
            handles.push(builder.connect().await.expect("it answers"));
        }
        Ground { server, proxy, handles }
    }

    /// Breaks things for the length of a round, then takes every fault back.
    async fn shake(&mut self, rng: &mut StdRng) {
        let end = Instant::now() + ROUND;
        while Instant::now() < end {
            let chance = rng.random_range(0.0..0.05);
            match rng.random_range(0..12) {
                0..=4 => {
                    self.proxy.drop_reply(On::command("EVALSHA").probability(chance).times(9));
                }
                5..=7 => {
                    self.proxy.drop_request(On::command("EVALSHA").probability(chance).times(9));
                }
                8 => self.proxy.cut_all(),
                9 => {
                    self.proxy.down();
                    tokio::time::sleep(Duration::from_millis(rng.random_range(1..200))).await;
                    self.proxy.accept();
                }
                10 => {
                    self.server.signal("STOP").expect("stopped");
                    tokio::time::sleep(Duration::from_millis(rng.random_range(1..700))).await;
                    self.server.signal("CONT").expect("it goes on");
                }
                _ => self.server.restart().expect("it starts again"),
            }
            tokio::time::sleep(Duration::from_millis(rng.random_range(20..200))).await;
        }
        self.proxy.heal();
    }

    async fn end(self) {
        for handle in self.handles {
            handle.shutdown().await;
        }
    }
}

/// Asks until there is an answer.
async fn surely<T>(mut ask: impl AsyncFnMut() -> Result<Option<T>, Error>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask().await;
        if let Ok(Some(answer)) = answer {
            return answer;
        }
        assert!(Instant::now() < deadline, "{:?}", answer.err());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What customers know for certain, by reference.
type Known = Arc<Mutex<BTreeMap<String, Told>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Sold, so many.
    Sold(u64),
    /// It may have come to anything.
    Unknown,
    /// Nothing was carried out, or it was refused, released or taken back.
    Nothing,
}

/// One customer: holds, sells, releases, gives up in the middle, until it is told to stop.
async fn trade(stock: Inventory, mut rng: StdRng, name: u64, known: Known, stop: Arc<AtomicBool>) {
    let mut turn = 0;
    while !stop.load(Ordering::SeqCst) {
        turn += 1;
        let home = rng.random_range(0..stock.shards());
        let reference = Reference::new(format!("{name}-{turn}@{home}")).expect("valid");
        let note = |told: Told| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(reference.as_str().to_owned(), told);
        };
        let (units, lifetime) = (rng.random_range(1..7), rng.random_range(1..2_000));
        let lifetime = Duration::from_millis(lifetime);
        let (how, ends) = (rng.random_range(0..10), rng.random_range(0..10));
        let patience = Duration::from_millis(rng.random_range(1..60));
        note(Told::Unknown);
        let whole = async {
            let held = match how {
                0..=3 => stock.sell_now(&reference, units).await?,
                _ => stock.hold(&reference, units, lifetime).await?,
            };
            Ok::<_, Error>(match (held, ends) {
                (Held::Sold { units }, 0) => match stock.take_back(&reference).await? {
                    Settled::Now { .. } | Settled::Before { .. } => Told::Nothing,
                    Settled::Unavailable => Told::Sold(units),
                    Settled::Not(_) => Told::Unknown,
                    _ => Told::Unknown,
                },
                (Held::Sold { units }, _) => Told::Sold(units),
                (Held::Held(_), 0..=2) => match stock.release(&reference).await? {
                    Settled::Unavailable => Told::Unknown,
                    _ => Told::Nothing,
                },
                (Held::Held(_), 3) => Told::Unknown,
                (Held::Held(_), _) => match stock.sell(&reference).await? {
                    Settled::Now { units } | Settled::Before { units } => Told::Sold(units),
                    Settled::Not(_) => Told::Nothing,
                    _ => Told::Unknown,
                },
                (Held::SoldOut { .. } | Held::Partial { .. } | Held::Over(_), _) => Told::Nothing,
                _ => Told::Nothing,
            })
        };
        // Some do not wait for the end.
        let told = match rng.random_range(0..5) {
            0 => tokio::time::timeout(patience, whole).await.ok(),
            _ => Some(whole.await),
        };
        match told {
            Some(Ok(told)) => note(told),
            Some(Err(error)) => assert!(error.is_outage(), "{error}"),
            None => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "counts of a run belong to it")]
async fn an_inventory_keeps_its_word_whatever_is_drawn() {
    let mut rng = StdRng::seed_from_u64(seed("inventory"));
    let mut ground = Ground::new(&mut rng).await;
    let (began, mut rounds, mut sold) = (Instant::now(), 0, 0);
    while began.elapsed() < length() {
        let shards = rng.random_range(1..7);
        let settings = (rng.random_range(1..14u64), rng.random_range(60..700_000u64));
        let sweep = Duration::from_millis(rng.random_range(5..3_000));
        let mut stocks = Vec::new();
        for handle in &ground.handles {
            stocks.push(
                surely(async || {
                    let builder = handle.inventory(&rounds).shards(shards).max_rounds(settings.0);
                    let builder = builder.reference_ttl(Duration::from_secs(settings.1));
                    builder.sweep_interval(sweep).open().await.map(Some)
                })
                .await,
            );
        }
        let units = rng.random_range(1..400);
        let (known, stop) = (Known::default(), Arc::new(AtomicBool::new(false)));
        let traders: Vec<_> = (0..12)
            .map(|name| {
                let stock = stocks[name as usize % 2].clone();
                let rng = StdRng::seed_from_u64(rng.random());
                tokio::spawn(trade(stock, rng, name, Arc::clone(&known), Arc::clone(&stop)))
            })
            .collect();
        let receiving = surely(async || match stocks[0].receive("r", units).await? {
            Received::Complete { .. } => Ok(Some(())),
            _ => Ok(None),
        });
        tokio::join!(receiving, ground.shake(&mut rng));
        stop.store(true, Ordering::SeqCst);
        for trader in traders {
            trader.await.expect("no panic");
        }
        let known = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = settle_round(&stocks[0], &known).await;
        let wrong = wrong_with_inventory(&stocks[0], told, units).await;
        assert!(wrong.is_empty(), "round {rounds}, {shards} shards, {settings:?}: {wrong:#?}");
        (rounds, sold) = (rounds + 1, sold + told);
    }
    eprintln!("inventory: {rounds} rounds, {sold} units sold");
    assert!(rounds > 0 && sold > 0);
    ground.end().await;
}

/// Lets everything end, and finds out what became of what nobody knows; what customers have.
async fn settle_round(stock: &Inventory, known: &BTreeMap<String, Told>) -> u64 {
    surely(async || {
        let _ = stock.sweep().await?;
        let audit = stock.audit().await?;
        Ok((audit.is_complete() && audit.total().held == 0).then_some(()))
    })
    .await;
    let mut sum = 0;
    for (name, told) in known {
        let reference = Reference::new(name.as_str()).expect("valid");
        let (standing, units) = surely(async || stock.standing(&reference).await.map(Some)).await;
        let has = if standing == Standing::Sold { units } else { 0 };
        match told {
            Told::Sold(units) => assert_eq!(has, *units, "{name} was told so: {standing:?}"),
            Told::Nothing => assert_eq!(has, 0, "{name} was told that it has nothing"),
            Told::Unknown => {}
        }
        sum += has;
    }
    sum
}

/// One user of a sale, who asks under several names and gives up now and then.
async fn order(sale: FlashSale, mut rng: StdRng, known: Known, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let user = rng.random_range(0..300u64);
        let reference = format!("{user}-{}", rng.random::<u64>());
        let note = |told: Told| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(reference.clone(), told);
        };
        note(Told::Unknown);
        let ends = rng.random_range(0..6);
        let whole = async {
            let answer = sale.reserve(&user, reference.as_str(), &OrderFields::new()).await;
            if let Err(Error::Unavailable(_)) = answer {
                return Ok(Told::Nothing);
            }
            match answer? {
                Reserved::Unverified => {
                    sale.verify(async { Ok::<_, Error>(()) }).await?;
                    Ok(Told::Nothing)
                }
                answer if answer.receipt().is_none() => Ok(Told::Nothing),
                _ if ends == 0 => Ok(match sale.give_back(reference.as_str()).await? {
                    CancelOutcome::Returned | CancelOutcome::Already => Told::Nothing,
                    _ => Told::Unknown,
                }),
                _ => {
                    if ends == 1 {
                        let _ = sale.confirm(reference.as_str()).await;
                    }
                    Ok::<_, Error>(Told::Sold(1))
                }
            }
        };
        let patience = Duration::from_millis(rng.random_range(1..60));
        let told = match rng.random_range(0..5) {
            0 => tokio::time::timeout(patience, whole).await.ok(),
            _ => Some(whole.await),
        };
        match told {
            Some(Ok(told)) => note(told),
            Some(Err(error)) => assert!(error.is_outage(), "{error}"),
            None => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "counts of a run belong to it")]
async fn a_sale_keeps_its_word_whatever_is_drawn() {
    let mut rng = StdRng::seed_from_u64(seed("sale"));
    let mut ground = Ground::new(&mut rng).await;
    let (began, mut rounds, mut sold) = (Instant::now(), 0u64, 0);
    while began.elapsed() < length() {
        let (findable, verified) = (rng.random(), rng.random());
        let orders = if rng.random() { rng.random_range(1_000_000..9_000_000) } else { 0 };
        let (group, kept) = (rng.random_range(0..4u64), rng.random_range(0..90_000));
        let build = |handle: &Seawall| {
            let mut sale = handle.flash_sale(&rounds).group(&group).orders(orders);
            sale = sale.retention(Duration::from_secs(kept));
            sale = if findable { sale.findable() } else { sale };
            if verified { sale.verified() } else { sale }.build().expect("valid")
        };
        let sales: Vec<_> = ground.handles.iter().map(build).collect();
        let units = rng.random_range(1..250);
        let window = SaleWindow::from_now(Duration::ZERO, MINUTE * 10).expect("a window");
        let _ = surely(async || sales[0].open("o", window, units).await.map(Some)).await;
        let (known, stop) = (Known::default(), Arc::new(AtomicBool::new(false)));
        let buyers: Vec<_> = (0..12)
            .map(|buyer: usize| {
                let rng = StdRng::seed_from_u64(rng.random());
                let sale = sales[buyer % 2].clone();
                tokio::spawn(order(sale, rng, Arc::clone(&known), Arc::clone(&stop)))
            })
            .collect();
        ground.shake(&mut rng).await;
        stop.store(true, Ordering::SeqCst);
        for buyer in buyers {
            buyer.await.expect("no panic");
        }
        // What was sent to a server that stood still, and given up here, is carried out by now: a
        // reference that is given back is refused when it comes later.
        let known = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut told = 0;
        for (reference, told_so) in &known {
            if *told_so == Told::Unknown {
                let _ =
                    surely(async || sales[0].give_back(reference.as_str()).await.map(Some)).await;
            }
            told += u64::from(*told_so == Told::Sold(1));
        }
        if verified {
            surely(async || sales[0].verify(async { Ok(()) }).await.map(|_| Some(()))).await;
        }
        let held = surely(async || sales[0].holdings().await.map(Some)).await;
        for holding in held {
            let name = String::from_utf8(holding.reference).expect("text");
            let has = holding.state != seawall::stock::HoldingState::GivenBack;
            let expected = known.get(&name) == Some(&Told::Sold(1));
            assert_eq!(has, expected, "{name}: {:?} {:?}", known.get(&name), holding.state);
        }
        let wrong = wrong_with_sale(&sales[0], told, units).await;
        let drawn = (findable, verified, orders, group, kept);
        assert!(wrong.is_empty(), "round {rounds}, {drawn:?}: {wrong:#?}");
        (rounds, sold) = (rounds + 1, sold + told);
    }
    eprintln!("sale: {rounds} rounds, {sold} units sold");
    assert!(rounds > 0 && sold > 0);
    ground.end().await;
}
