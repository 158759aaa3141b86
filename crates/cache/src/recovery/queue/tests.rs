use super::{super::file::FileRecoveryLog, *};

fn entries(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| format!("shop:{number}").into_bytes()).collect()
}

fn open(log: Option<&Arc<dyn RecoveryLog>>) -> Arc<RecoveryQueue> {
    RecoveryQueue::open(
        &Names::new("", "shop"),
        10,
        log.cloned(),
        (&Clock::system(), &Clock::system()),
    )
}

#[tokio::test]
async fn before_the_log_was_read_nothing_is_trusted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RecoveryLog> = Arc::new(FileRecoveryLog::open(folder.path()).expect("empty"));
    log.add("shop", &entries(0..2)).await.expect("room");
    let recovery = open(Some(&log));
    assert!(recovery.concerns(b"any"));
    Arc::clone(&recovery).read_log().await.expect("readable");
    assert!(!recovery.concerns(b"any") && recovery.concerns(&entries(1..2)[0]));
    let rows = recovery.done(recovery.next_batch());
    assert_eq!(rows.len(), 2);
    log.remove("shop", &rows).await.expect("removable");
    assert!(recovery.is_empty());
}

#[tokio::test]
async fn a_log_with_too_many_rows_is_a_sweep_and_then_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RecoveryLog> = Arc::new(FileRecoveryLog::open(folder.path()).expect("empty"));
    log.add("shop", &entries(0..25)).await.expect("room");
    let recovery = open(Some(&log));
    Arc::clone(&recovery).read_log().await.expect("readable");
    assert!(recovery.concerns(b"any"));
    recovery.done(recovery.next_batch());
    let mut removed = 0;
    while removed < 25 {
        assert!(!recovery.concerns(b"any"));
        Arc::clone(&recovery).read_log().await.expect("readable");
        let rows = recovery.done(recovery.next_batch());
        log.remove("shop", &rows).await.expect("removable");
        removed += rows.len();
    }
    assert!(log.load("shop", 0, 10).await.expect("readable").is_empty());
}

#[test]
fn more_second_invalidations_than_are_kept_are_a_sweep() {
    let recovery = open(None);
    let at = |seconds: u64| Moment::default() + Duration::from_secs(seconds);
    (0..11).for_each(|number| recovery.add_later(at(number), entries(number..number + 1)));
    recovery.add_later(at(20), entries(7..8));
    assert_eq!(recovery.take_due(at(9), false), Some(at(10)), "it waits for the last of them");
    assert_eq!(recovery.take_due(at(10), false), Some(at(20)));
    assert!(matches!(recovery.next_batch(), Batch::Everything(..)));
    recovery.done(recovery.next_batch());
    assert_eq!(recovery.take_due(at(11), true), None);
    assert!(matches!(recovery.next_batch(), Batch::Entries(some) if some.len() == 1));
}

#[tokio::test]
async fn after_the_end_only_a_log_takes_anything() {
    let recovery = open(None);
    recovery.add(entries(0..1)).await.expect("taken");
    assert!(!recovery.end(false), "something waits");
    assert!(recovery.end(true));
    assert!(matches!(recovery.add(entries(1..2)).await, Err(Error::Closed)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RecoveryLog> = Arc::new(FileRecoveryLog::open(folder.path()).expect("empty"));
    let recovery = open(Some(&log));
    assert!(recovery.end(true));
    recovery.add(entries(1..2)).await.expect("the next process does it");
    assert_eq!(log.load("shop", 0, 10).await.expect("readable").len(), 1);
}

#[tokio::test]
async fn keys_of_others_are_left_alone_and_their_rows_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log: Arc<dyn RecoveryLog> = Arc::new(FileRecoveryLog::open(folder.path()).expect("empty"));
    log.add("shop", &[b"other:thing".to_vec(), b"shop:1".to_vec()]).await.expect("room");
    let recovery = open(Some(&log));
    Arc::clone(&recovery).read_log().await.expect("readable");
    assert!(!recovery.concerns(b"other:thing") && recovery.concerns(b"shop:1"));
    let rows = recovery.done(recovery.next_batch());
    log.remove("shop", &rows).await.expect("removable");
    assert_eq!(log.load("shop", 0, 10).await.expect("readable").len(), 1);
}
