//! `[load]`: the load of a run that isn't told otherwise.

use super::values;
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::{Arrivals, Load, OpenLoad, Stage};
use crate::raw;

/// The closed model's levels when a file says nothing.
const CONCURRENCY_DEFAULT: [u32; 3] = [10, 20, 50];
/// More users than this are a typo, or need more than one machine.
pub(super) const CONCURRENCY_MAX: u32 = 10_000;
/// As many as the command line takes.
const REQUESTS_MAX: u64 = 100_000_000;
/// More than one machine sends.
const RATE_MAX: f64 = 1_000_000.0;

pub(crate) fn resolve(document: &Document<'_>, raw: raw::Load) -> Result<Load, ScenarioError> {
    let place = Place::Root.key("load");
    let open = raw.open.map(|open| resolve_open(document, open));
    let open = open.transpose()?;
    let Some(closed) = raw.closed else {
        return Ok(Load {
            concurrency: match &open {
                Some(_) => Vec::new(),
                None => CONCURRENCY_DEFAULT.to_vec(),
            },
            requests: None,
            open,
        });
    };
    check_concurrency(document, &closed.concurrency)?;
    if let Some(requests) = closed.requests {
        check_requests(document, &place.key("closed").key("requests"), requests)?;
    }
    Ok(Load {
        concurrency: closed.concurrency,
        requests: closed.requests,
        open,
    })
}

fn check_concurrency(document: &Document<'_>, levels: &[u32]) -> Result<(), ScenarioError> {
    let (root, fix) = (Place::Root, "write a list as `concurrency = [10, 20, 50]`");
    let (load, closed);
    load = root.key("load");
    closed = load.key("closed");
    let place = closed.key("concurrency");
    if levels.is_empty() {
        return Err(document.error(&place, "there is no level of concurrency", fix));
    }
    for (index, level) in levels.iter().enumerate() {
        if !(1..=CONCURRENCY_MAX).contains(level) {
            return Err(document.error(
                &place.item(index),
                format!("concurrency {level}, expected 1 to {CONCURRENCY_MAX}"),
                fix,
            ));
        }
        if levels[..index].contains(level) {
            return Err(document.error(
                &place.item(index),
                format!("concurrency {level} stands here twice"),
                "take one of them out",
            ));
        }
    }
    Ok(())
}

fn check_requests(
    document: &Document<'_>,
    place: &Place<'_>,
    requests: u64,
) -> Result<(), ScenarioError> {
    if (1..=REQUESTS_MAX).contains(&requests) {
        return Ok(());
    }
    Err(document.error(
        place,
        format!("{requests} requests, expected 1 to {REQUESTS_MAX}"),
        "write how many per endpoint and level, as `requests = 10`, or leave it out for 400",
    ))
}

fn resolve_open(document: &Document<'_>, raw: raw::Open) -> Result<OpenLoad, ScenarioError> {
    let root = Place::Root;
    let load = root.key("load");
    let open = load.key("open");
    let place = open.key("stages");
    if raw.stages.is_empty() {
        return Err(document.error(
            &place,
            "there is no stage",
            "write a list as `stages = [{ rate = 50, for = \"30s\" }]`",
        ));
    }
    let stages = raw.stages.iter().enumerate().map(|(index, stage)| {
        let place = place.item(index);
        values::rate(document, &place.key("rate"), stage.rate, RATE_MAX)?;
        let duration = values::positive_duration(document, &place.key("for"), &stage.duration.0)?;
        Ok(Stage {
            rate: stage.rate,
            duration,
        })
    });
    Ok(OpenLoad {
        arrivals: match raw.arrivals {
            Some(raw::Arrivals::Constant) => Arrivals::Constant,
            Some(raw::Arrivals::Poisson) | None => Arrivals::Poisson,
        },
        stages: stages.collect::<Result<_, ScenarioError>>()?,
    })
}
