//! `seawall keys delete`: asks first, then deletes by `UNLINK`, a few keys at a time.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
};

use seawall::survey::{Kind, key_of_text, key_text};

use super::{args::DeleteArgs, connect::connect, ended, interrupted, progress, text::grouped};
use crate::{Failure, terminal};

/// Deletes the keys named on the command line.
pub(super) async fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let kind = match args.kind.as_deref() {
        None => None,
        Some(name) => {
            Some(Kind::of_name(name).filter(|kind| *kind != Kind::Other).ok_or_else(|| {
                Failure::Usage(format!(
                    "--type cannot be '{name}': it takes string, list, set, zset, hash or stream"
                ))
            })?)
        }
    };
    let keys = keys(args)?;
    if !args.yes && !args.dry_run && !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "there is no terminal to confirm on; say --yes to delete, or --dry-run \
             to see what would be deleted"
                .into(),
        ));
    }
    let seawall = connect(&args.target).await?;
    let done = match &args.pattern {
        Some(pattern) => {
            let mut sweep = seawall.sweep(pattern).rate(args.rate);
            if let Some(kind) = kind {
                sweep = sweep.kind(kind);
            }
            matching(args, &sweep, pattern).await
        }
        None => by_name(args, &keys, &seawall).await,
    };
    seawall.shutdown().await;
    done
}

/// Returns the named keys, byte for byte.
fn keys(args: &DeleteArgs) -> Result<Vec<Vec<u8>>, Failure> {
    let read = |text: &OsString| {
        key_of_text(text.as_encoded_bytes()).map_err(|error| {
            Failure::Usage(format!("the key '{}': {error}", text.to_string_lossy()))
        })
    };
    args.keys.iter().map(read).collect()
}

fn work(error: &seawall::Error) -> Failure {
    Failure::Work(error.to_string())
}

async fn matching(
    args: &DeleteArgs,
    sweep: &seawall::survey::Sweep,
    pattern: &str,
) -> Result<(), Failure> {
    if !args.yes || args.dry_run {
        let bar = progress::keys(0);
        let looked = sweep
            .preview(
                |progress| {
                    bar.set_length(progress.total.max(progress.seen));
                    bar.set_position(progress.seen);
                },
                interrupted(),
            )
            .await;
        bar.finish_and_clear();
        let (preview, end) = looked.map_err(|error| work(&error))?;
        terminal::announce(&format!("{} keys match '{pattern}'", grouped(preview.found)));
        for key in &preview.named {
            terminal::announce(&format!("  {}", key_text(key)));
        }
        if preview.found > preview.named.len() as u64 {
            terminal::announce("  …");
        }
        ended(end)?;
        if args.dry_run || preview.found == 0 || !confirmed(preview.found)? {
            terminal::announce("nothing was deleted");
            return Ok(());
        }
    }
    let bar = progress::keys(0);
    let swept = sweep
        .remove(
            |progress| {
                bar.set_length(progress.total.max(progress.seen));
                bar.set_position(progress.seen);
            },
            interrupted(),
        )
        .await;
    bar.finish_and_clear();
    let (swept, end) = swept.map_err(|error| work(&error))?;
    terminal::announce(&format!("{} keys deleted", grouped(swept.removed)));
    ended(end)
}

async fn by_name(
    args: &DeleteArgs,
    keys: &[Vec<u8>],
    seawall: &seawall::Seawall,
) -> Result<(), Failure> {
    if args.dry_run {
        for key in keys {
            terminal::announce(&format!("  {}", key_text(key)));
        }
        terminal::announce("nothing was deleted");
        return Ok(());
    }
    if !args.yes && !confirmed(keys.len() as u64)? {
        terminal::announce("nothing was deleted");
        return Ok(());
    }
    let bar = progress::keys(keys.len() as u64);
    let removed = seawall.unlink_keys(keys, args.rate, |keys| bar.inc(keys)).await;
    bar.finish_and_clear();
    let removed = removed.map_err(|error| work(&error))?;
    terminal::announce(&format!(
        "{} keys deleted, {} were not there",
        grouped(removed),
        grouped(keys.len() as u64 - removed.min(keys.len() as u64))
    ));
    Ok(())
}

/// Asks the user for confirmation.
fn confirmed(keys: u64) -> Result<bool, Failure> {
    let fail = |error: io::Error| Failure::Work(format!("cannot ask: {error}"));
    write!(io::stderr(), "Delete {} keys? [y/N] ", grouped(keys)).map_err(fail)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(fail)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
