//! `unstall scenarios …`: what there is to send, and whether a file is right.

use crate::arguments::{ScenariosCommand, SchemaOf};
use crate::console::Outcome;
use crate::document::{self, Content};

pub(crate) fn execute(command: ScenariosCommand) -> anyhow::Result<Outcome> {
    let text = match command {
        ScenariosCommand::Schema {
            of: SchemaOf::Result,
        } => document::schema()?,
        _ => anyhow::bail!("not wired yet"),
    };
    Ok(Outcome {
        verdict: None,
        content: Content {
            text: Some(text.clone()),
            ..Content::default()
        },
        text,
    })
}
