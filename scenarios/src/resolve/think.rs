//! Pauses: fixed, uniform or exponential.

use super::values;
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::Think;
use crate::raw::choices::ThinkText;

pub(crate) fn resolve(
    document: &Document<'_>,
    place: &Place<'_>,
    raw: Option<&ThinkText>,
) -> Result<Think, ScenarioError> {
    let drawn = match raw {
        None => return Ok(Think::default()),
        Some(ThinkText::Fixed(text)) => {
            return values::duration(document, place, &text.0).map(Think::Fixed);
        }
        Some(ThinkText::Drawn(drawn)) => drawn,
    };
    match (&drawn.min, &drawn.max, &drawn.mean) {
        (Some(min), Some(max), None) => {
            let min = values::duration(document, &place.key("min"), &min.0)?;
            let max = values::positive_duration(document, &place.key("max"), &max.0)?;
            if min > max {
                return Err(document.error(
                    &place.key("max"),
                    "`max` is shorter than `min`",
                    "write the shorter one as `min`",
                ));
            }
            Ok(Think::Uniform { min, max })
        }
        (None, None, Some(mean)) => {
            let mean = values::positive_duration(document, &place.key("mean"), &mean.0)?;
            Ok(Think::Exponential { mean })
        }
        _ => Err(document.error(
            place,
            "a drawn pause needs `min` and `max`, or `mean` alone",
            "write `{ min = \"50ms\", max = \"150ms\" }`, each as likely, or `{ mean = \"100ms\" }`, \
             exponential",
        )),
    }
}
