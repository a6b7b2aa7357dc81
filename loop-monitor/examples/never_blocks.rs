//! A test that fails when a route makes a call that can block, also if it returned at once.
//!
//! `cargo run --example never_blocks --features axum,prove` shows both outcomes; in a project of
//! your own the two functions would be `#[tokio::test]`s.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use unstall_loop_monitor::prove::assert_route_never_blocks;

fn router() -> Router {
    Router::new()
        .route(
            "/motd",
            get(|| async {
                tokio::fs::read_to_string("/proc/version")
                    .await
                    .expect("it is there")
            }),
        )
        .route("/motd-in-a-hurry", get(|| async { read_now() }))
}

/// Fast today, from the cache. Not on the day on which the disk is busy.
#[expect(clippy::disallowed_methods, reason = "the mistake that is to be found")]
fn read_now() -> String {
    std::fs::read_to_string("/proc/version").expect("it is there")
}

async fn the_message_of_the_day_leaves_the_loop_to_others() {
    let request = Request::get("/motd")
        .body(Body::empty())
        .expect("a request");
    let response = assert_route_never_blocks(router(), request).await;
    assert!(response.status().is_success());
}

async fn the_hurried_one_does_not() {
    let request = Request::get("/motd-in-a-hurry").body(Body::empty());
    assert_route_never_blocks(router(), request.expect("a request")).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    the_message_of_the_day_leaves_the_loop_to_others().await;
    eprintln!("GET /motd never blocks.");
    let hurried = tokio::spawn(the_hurried_one_does_not()).await;
    assert!(hurried.is_err(), "a read of a file was not found");
}
