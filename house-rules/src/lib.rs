//! house-rules
