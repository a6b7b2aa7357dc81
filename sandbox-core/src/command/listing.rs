//! `ls`: lists workspaces.

use super::Outcome;
use super::arguments::Place;
use super::document::{Content, WorkspaceDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop};

/// Lists them in the order in which they were made.
pub(super) async fn list(place: &Place, ground: &Ground) -> Result<Outcome, Failure> {
    let workshop = Workshop::open(place, Need::Looking, ground).await?;
    let service = &workshop.service;
    let rows = service.all_workspaces().await?;
    let documents = rows.iter().map(|row| WorkspaceDocument::of(service, row));
    let workspaces = documents.collect::<Result<Vec<_>, _>>()?;
    let text: String = workspaces.iter().map(WorkspaceDocument::line).collect();
    let text = if text.is_empty() {
        "there are no workspaces; `unstall-sandbox acquire owner/repo --conversation ID` makes one\n"
            .to_owned()
    } else {
        text
    };
    Ok(Outcome {
        text,
        content: Content {
            workspaces: Some(workspaces),
            ..Content::default()
        },
        ..Outcome::default()
    })
}
