//! The page about the data plane: stock, streams, hot keys.
//!
//! A subject is one line of [`SUBJECTS`] and a function in its own file (`data_*.rs`), which
//! returns comparisons of two sides, single figures, or both.

use std::error::Error;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::{Ground, sides::Report};

/// Results of a subject.
#[derive(Serialize, Default)]
pub(crate) struct Findings {
    /// Two sides, measured in turn.
    pub(crate) comparisons: Vec<Comparison>,
    /// Figures with only one side, such as the cost of one operation.
    pub(crate) figures: Vec<Figure>,
}

/// Two sides and their minimum ratio.
#[derive(Serialize)]
pub(crate) struct Comparison {
    #[serde(flatten)]
    pub(crate) report: Report,
    pub(crate) goal: Option<f64>,
}

/// One number.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    /// Such as `ns`.
    pub(crate) unit: &'static str,
    /// The maximum it should be.
    pub(crate) at_most: Option<f64>,
}

impl From<Comparison> for Findings {
    fn from(comparison: Comparison) -> Self {
        Findings { comparisons: vec![comparison], figures: Vec::new() }
    }
}

impl From<Figure> for Findings {
    fn from(figure: Figure) -> Self {
        Findings { comparisons: Vec::new(), figures: vec![figure] }
    }
}

/// Measures one subject.
type Measure = fn(&Ground) -> BoxFuture<'_, Result<Findings, Box<dyn Error>>>;

/// Every subject of the page, in its order: `("name", |ground| Box::pin(file::function(ground)))`.
const SUBJECTS: &[(&str, Measure)] = &[
    ("reserve", |ground| Box::pin(crate::data_stock::reserve(ground))),
    ("sharded", |ground| Box::pin(crate::data_stock::sharded(ground))),
    ("hot", |ground| Box::pin(crate::data_hot::counting(ground))),
    ("stream", |ground| Box::pin(crate::data_stream::measure(ground))),
];

pub(crate) async fn measure(ground: &Ground) -> Result<String, Box<dyn Error>> {
    let mut all = Findings::default();
    for (name, subject) in SUBJECTS.iter().filter(|(name, _)| ground.wants(name)) {
        let found = subject(ground).await.map_err(|error| format!("{name}: {error}"))?;
        all.comparisons.extend(found.comparisons);
        all.figures.extend(found.figures);
    }
    Ok(serde_json::to_string_pretty(&all)?)
}
