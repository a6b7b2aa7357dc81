//! reference-service
