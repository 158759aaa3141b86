//! Processes that tests start: one that runs nothing must not pass for one that found nothing.

use std::time::Duration;

use crate::process::{Worker, task};

const VARIABLE: &str = "SEAWALL_TEST_PROCESS";

/// What the processes of this file run; as a test without the variable it does nothing.
#[test]
fn work() {
    if let Some(words) = task(VARIABLE) {
        assert_eq!(words, "succeed", "told to fail");
    }
}

fn start(test: &str, variable: &str, word: &str) -> Worker {
    Worker::start(test, variable, &[word.to_owned()])
}

#[test]
fn a_process_that_did_its_task_is_joined() {
    start("processes::work", VARIABLE, "succeed").join();
    assert!(!start("processes::work", VARIABLE, "fail").wait().success());
}

#[test]
#[should_panic(expected = "a worker ended without a task")]
fn a_process_with_a_misspelt_test_fails() {
    start("processes::werk", VARIABLE, "succeed").join();
}

#[test]
#[should_panic(expected = "a worker ended without a task")]
fn a_process_with_a_misspelt_variable_fails() {
    start("processes::work", "SEAWALL_TEST_PROCES", "succeed").join();
}

#[test]
#[should_panic(expected = "a worker ended without a task")]
fn a_process_that_nobody_joins_fails_too() {
    let mut worker = start("processes::werk", VARIABLE, "succeed");
    while worker.child.try_wait().expect("our child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
