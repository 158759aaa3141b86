//! `seawall keys skew`.

use std::{fmt::Write as _, sync::Arc};

use seawall::survey::{SkewReport, SlotShare, Source, key_text};
use serde_json::json;

use super::{
    args::{Output, SkewArgs},
    connect::connect,
    csv, deliver, ended, hot, interrupted, progress, table,
    text::{bytes, grouped},
};
use crate::{Failure, terminal};

/// Measures slots and nodes and prints the result.
pub(super) async fn run(args: &SkewArgs) -> Result<(), Failure> {
    let listen = hot::bounds(args.monitor, args.lines)?;
    let seawall = connect(&args.target).await?;
    let mut survey = seawall
        .skew_survey()
        .rate(args.rate)
        .sample(args.sample)
        .top(args.top)
        .source(if args.primary { Source::Primary } else { Source::PreferReplica });
    if let Some(bounds) = listen {
        terminal::remark("listening too; MONITOR costs the server a good part of its speed");
        survey = survey.listen(bounds);
    }
    let bar = progress::keys(0);
    let looked = survey
        .run(
            |progress| {
                bar.set_length(progress.total.max(progress.seen));
                bar.set_position(progress.seen);
                bar.set_message(format!("({})", progress.node));
            },
            interrupted(),
        )
        .await;
    bar.finish_and_clear();
    seawall.shutdown().await;
    let (report, end) = looked.map_err(|error| Failure::Work(error.to_string()))?;
    let text = match args.delivery.output {
        Output::Table => as_table(&report),
        Output::Csv => as_csv(&report),
        Output::Json => as_json(&report),
    };
    deliver(&text, args.delivery.out.as_deref())?;
    ended(end)
}

fn named(key: Option<&(Arc<[u8]>, u64)>) -> (String, u64) {
    key.map_or_else(Default::default, |(key, size)| (key_text(key), *size))
}

fn slots(text: &mut String, heading: &str, shares: &[SlotShare]) {
    let columns = ["slot", "keys", "bytes", "uses", "node", "largest key", "most used key"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    for share in shares {
        rows.push(vec![
            share.slot.to_string(),
            grouped(share.keys),
            bytes(share.bytes),
            grouped(share.uses),
            share.node.to_string(),
            named(share.largest.as_ref()).0,
            named(share.hottest.as_ref()).0,
        ]);
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "\n  {heading}\n{}", table::aligned(&rows, &[0, 1, 2, 3]));
}

fn as_table(report: &SkewReport) -> String {
    let columns = ["node", "keys", "bytes", "commands/s", "lookups/s", "heard"];
    let mut rows = vec![columns.map(str::to_owned).to_vec()];
    for node in &report.nodes {
        rows.push(vec![
            node.name.to_string(),
            grouped(node.keys),
            bytes(node.bytes),
            format!("{:.0}", node.commands_per_second),
            format!("{:.0}", node.lookups_per_second),
            grouped(node.heard),
        ]);
    }
    let mut text = table::aligned(&rows, &[1, 2, 3, 4, 5]);
    let _ = writeln!(
        text,
        "\n  largest share against the mean: nodes {:.2} by memory, {:.2} by commands; slots {:.2} by \
         memory, {:.2} by uses ({} slots have keys)",
        report.node_bytes.0,
        report.node_commands.0,
        report.slot_bytes.0,
        report.slot_uses.0,
        grouped(report.used_slots as u64)
    );
    slots(&mut text, "slots with most memory", &report.heavy_slots);
    if !report.hot_slots.is_empty() {
        slots(&mut text, "slots with most uses", &report.hot_slots);
    }
    text.push('\n');
    for advice in &report.advice {
        let _ = writeln!(text, "  Advice: {advice}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "  {note}");
    }
    let seconds = report.took.as_secs_f64();
    let _ = writeln!(text, "  {} keys sampled in {seconds:.1} s", grouped(report.sampled));
    text
}

fn as_csv(report: &SkewReport) -> String {
    let mut text =
        "slot,node,keys,bytes,uses,largest_key,largest_key_bytes,most_used_key,most_used_key_uses\n"
            .to_owned();
    let shares = report.heavy_slots.iter().chain(
        report
            .hot_slots
            .iter()
            .filter(|hot| report.heavy_slots.iter().all(|one| one.slot != hot.slot)),
    );
    for share in shares {
        let (largest, largest_bytes) = named(share.largest.as_ref());
        let (hottest, hottest_uses) = named(share.hottest.as_ref());
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{largest_bytes},{},{hottest_uses}",
            share.slot,
            csv::field(&share.node),
            share.keys,
            share.bytes,
            share.uses,
            csv::field(&largest),
            csv::field(&hottest),
        );
    }
    text
}

fn as_json(report: &SkewReport) -> String {
    let slot = |share: &SlotShare| {
        let (largest, hottest) = (share.largest.as_ref(), share.hottest.as_ref());
        let key = |(key, size): &(Arc<[u8]>, u64), unit: &str| json!({ "key": key_text(key), unit: size });
        json!({
            "slot": share.slot,
            "node": &*share.node,
            "keys": share.keys,
            "bytes": share.bytes,
            "uses": share.uses,
            "largest": largest.map(|found| key(found, "bytes")),
            "mostUsed": hottest.map(|found| key(found, "uses")),
        })
    };
    let nodes: Vec<_> = report
        .nodes
        .iter()
        .map(|node| {
            json!({
                "name": &*node.name,
                "keys": node.keys,
                "bytes": node.bytes,
                "commandsPerSecond": node.commands_per_second,
                "lookupsPerSecond": node.lookups_per_second,
                "heard": node.heard,
            })
        })
        .collect();
    let value = json!({
        "nodes": nodes,
        "heavySlots": report.heavy_slots.iter().map(slot).collect::<Vec<_>>(),
        "hotSlots": report.hot_slots.iter().map(slot).collect::<Vec<_>>(),
        "usedSlots": report.used_slots,
        "maxToMean": {
            "nodeBytes": report.node_bytes.0,
            "nodeCommands": report.node_commands.0,
            "slotBytes": report.slot_bytes.0,
            "slotUses": report.slot_uses.0,
        },
        "sampled": report.sampled,
        "tookSeconds": report.took.as_secs_f64(),
        "advice": report.advice,
        "notes": report.notes,
    });
    format!("{value:#}\n")
}
