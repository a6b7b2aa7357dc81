//! Latency histograms: what is recorded, how it is merged and how it is stored.
//!
//! One unit (microseconds), one precision (3 significant digits) and one wire
//! form (HdrHistogram V2, deflated, base64) for every crate, so that no reader
//! has to guess.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A histogram of microseconds with 3 significant digits that grows as needed.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let mut inner = Histogram::new(3).expect("3 significant digits is a valid precision");
        inner.auto(true);
        Self(inner)
    }

    /// Records one duration, rounded to the nearest microsecond.
    pub fn record(&mut self, latency: Duration) {
        let latency_us = u64::try_from((latency.as_nanos() + 500) / 1_000).unwrap_or(u64::MAX / 2);
        self.record_us(latency_us);
    }

    /// Records one value in microseconds.
    pub fn record_us(&mut self, latency_us: u64) {
        // Auto-resize covers the whole range of u64 up to half of it, so clamping is the
        // only way not to lose a count.
        self.0.saturating_record(latency_us.min(u64::MAX / 2));
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The underlying HdrHistogram, for quantiles and iteration.
    pub fn as_hdr(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
        use serde::ser::Error;
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|error| S::Error::custom(format!("histogram: {error}")))?;
        serializer.serialize_str(&base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            &bytes,
        ))
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let bytes =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text.as_bytes())
                .map_err(|error| D::Error::custom(format!("histogram is not base64: {error}")))?;
        let mut inner: Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| {
                D::Error::custom(format!("histogram is not HdrHistogram V2: {error}"))
            })?;
        inner.auto(true);
        Ok(Self(inner))
    }
}
