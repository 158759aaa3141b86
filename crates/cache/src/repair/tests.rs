use super::{super::repair_file::FileRepairLog, *};

fn entries(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| format!("shop:{number}").into_bytes()).collect()
}

fn open(log: Option<&Arc<dyn RepairLog>>) -> Arc<Repairs> {
    Repairs::open(&Names::new("", "shop"), 10, log.cloned(), &Clock::system())
}

#[tokio::test]
async fn before_the_log_was_read_nothing_is_trusted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RepairLog> = Arc::new(FileRepairLog::open(folder.path()).expect("empty"));
    log.add("shop", &entries(0..2)).await.expect("room");
    let repairs = open(Some(&log));
    assert!(repairs.concerns(b"any"));
    Arc::clone(&repairs).read_log().await.expect("readable");
    assert!(!repairs.concerns(b"any") && repairs.concerns(&entries(1..2)[0]));
    let rows = repairs.done(repairs.next_batch());
    assert_eq!(rows.len(), 2);
    log.remove("shop", &rows).await.expect("removable");
    assert!(repairs.is_empty());
}

#[tokio::test]
async fn a_log_with_too_many_rows_is_a_sweep_and_then_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RepairLog> = Arc::new(FileRepairLog::open(folder.path()).expect("empty"));
    log.add("shop", &entries(0..25)).await.expect("room");
    let repairs = open(Some(&log));
    Arc::clone(&repairs).read_log().await.expect("readable");
    assert!(repairs.concerns(b"any"));
    repairs.done(repairs.next_batch());
    let mut removed = 0;
    while removed < 25 {
        assert!(!repairs.concerns(b"any"));
        Arc::clone(&repairs).read_log().await.expect("readable");
        let rows = repairs.done(repairs.next_batch());
        log.remove("shop", &rows).await.expect("removable");
        removed += rows.len();
    }
    assert!(log.load("shop", 0, 10).await.expect("readable").is_empty());
}

#[test]
fn more_second_invalidations_than_are_kept_are_a_sweep() {
    let repairs = open(None);
    let at = |seconds: u64| Moment::default() + Duration::from_secs(seconds);
    (0..11).for_each(|number| repairs.add_later(at(number), entries(number..number + 1)));
    repairs.add_later(at(20), entries(7..8));
    assert_eq!(repairs.take_due(at(9), false), Some(at(10)), "it waits for the last of them");
    assert_eq!(repairs.take_due(at(10), false), Some(at(20)));
    assert!(matches!(repairs.next_batch(), Batch::Everything(..)));
    repairs.done(repairs.next_batch());
    assert_eq!(repairs.take_due(at(11), true), None);
    assert!(matches!(repairs.next_batch(), Batch::Entries(some) if some.len() == 1));
}

#[tokio::test]
async fn after_the_end_only_a_log_takes_anything() {
    let repairs = open(None);
    repairs.add(entries(0..1)).await.expect("taken");
    assert!(!repairs.end(false), "something waits");
    assert!(repairs.end(true));
    assert!(matches!(repairs.add(entries(1..2)).await, Err(Error::Closed)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RepairLog> = Arc::new(FileRepairLog::open(folder.path()).expect("empty"));
    let repairs = open(Some(&log));
    assert!(repairs.end(true));
    repairs.add(entries(1..2)).await.expect("the next process does it");
    assert_eq!(log.load("shop", 0, 10).await.expect("readable").len(), 1);
}

#[tokio::test]
async fn keys_of_others_are_left_alone_and_their_rows_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RepairLog> = Arc::new(FileRepairLog::open(folder.path()).expect("empty"));
    log.add("shop", &[b"other:thing".to_vec(), b"shop:1".to_vec()]).await.expect("room");
    let repairs = open(Some(&log));
    Arc::clone(&repairs).read_log().await.expect("readable");
    assert!(!repairs.concerns(b"other:thing") && repairs.concerns(b"shop:1"));
    let rows = repairs.done(repairs.next_batch());
    log.remove("shop", &rows).await.expect("removable");
    assert_eq!(log.load("shop", 0, 10).await.expect("readable").len(), 1);
}
