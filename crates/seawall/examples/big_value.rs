//! A value of 20 MB in a cache, without a single large command: `cargo run -p seawall --example big_value`.

use seawall::{Seawall, cache::Cache};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let reports: Cache<u64, String> = seawall.cache("report").local_max_bytes(0).build()?;

    // Numbers that hardly compress; what compresses to less than 512 KiB is not cut at all.
    let mut number = 1_u64;
    let mut report = String::new();
    while report.len() < 20 << 20 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        report.push_str(&number.to_string());
    }
    reports.put(&7, &report).await?;
    for big in reports.big_values() {
        say(&format!("{}: {} bytes in {} parts", big.entry, big.size_bytes, big.parts));
    }

    // Readers get all of one version, whatever happens meanwhile.
    let reader = reports.clone();
    let reading = tokio::spawn(async move { reader.get(&7).await });
    reports.put(&7, &report.replace('7', "8")).await?;
    if let Some(read) = reading.await?? {
        let value = read.value.unwrap_or_default();
        let whole = *value == report || *value == report.replace('7', "8");
        say(&format!(
            "read {} bytes while they were replaced, all of one version: {whole}",
            value.len()
        ));
    }
    say(&reports.explain(&7).await?.to_string());

    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
