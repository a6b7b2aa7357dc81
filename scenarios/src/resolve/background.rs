//! `[background]`: users who hold streams open beside the load.

use std::sync::Arc;

use super::load::CONCURRENCY_MAX;
use super::request::RequestResolver;
use super::{client, resolve_requests, values};
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::{Background, Load, Per, Plan};
use crate::raw::{self, values::Scalar};

/// The resolver is one that has passed no request yet. `None` if there are no users.
pub(crate) fn resolve(
    document: &Document<'_>,
    raw: raw::Background,
    mut requests: RequestResolver<'_>,
    beside: &Plan,
) -> Result<Option<Background>, ScenarioError> {
    let place = Place::Root.key("background");
    let users = users(document, &place.key("users"), &raw.users, beside)?;
    let section = place.key("request");
    if let Some(index) = raw.request.iter().position(|one| one.judge.is_some()) {
        return Err(document.error(
            &section.item(index).name("judge"),
            "nothing of the background is judged",
            "take `judge` out",
        ));
    }
    // What each user of the load sets up is that user's own.
    let run = beside.setup.iter().filter(|setup| setup.per == Per::Run);
    for setup in run {
        requests.names.reveal(setup.request.extract.keys());
    }
    let measured = resolve_requests(document, &section, raw.request, &mut requests)?;
    if measured.iter().all(|request| request.stream.is_none()) {
        return Err(document.error(
            &section,
            "the background holds no stream open",
            "give one of its requests a `stream`; load that is to be measured stands in `[[request]]`",
        ));
    }
    let plan = Plan {
        setup: Vec::new(),
        requests: measured,
        probe: None,
        load: Load {
            concurrency: Vec::new(),
            requests: None,
            open: None,
        },
        ..beside.clone()
    };
    Ok((users > 0).then(|| Background {
        users,
        plan: Arc::new(plan),
    }))
}

fn users(
    document: &Document<'_>,
    place: &Place<'_>,
    written: &Scalar,
    beside: &Plan,
) -> Result<u32, ScenarioError> {
    let text = match &written.0 {
        serde_json::Value::String(text) => {
            let template = values::template(document, place, text)?;
            client::known_before_the_run(document, place, &template, &beside.vars)?
        }
        other => other.to_string(),
    };
    let users = text.parse().ok(); // what is no number is answered as one too large
    users
        .filter(|users| *users <= CONCURRENCY_MAX)
        .ok_or_else(|| {
            document.error(
                place,
                format!("the background has no number of users, expected 0 to {CONCURRENCY_MAX}"),
                "write a number, or a variable that is one, as `users = \"${idle_streams}\"`",
            )
        })
}
