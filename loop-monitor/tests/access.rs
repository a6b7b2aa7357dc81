//! Who may read the monitor, over real connections.

mod monitored_server;

use axum::Router;
use axum::routing::get;
use monitored_server::{Loops, MonitoredServer, body, send};
use unstall_loop_monitor::wire::{METRICS_PATH, REFUSAL_PREFIX, SNAPSHOT_PATH, Snapshot};
use unstall_loop_monitor::{Monitor, UNMATCHED_ENDPOINT};

fn server(monitor: Monitor) -> MonitoredServer {
    let routes = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .fallback(|| async { "nothing here" });
    MonitoredServer::start(monitor, Loops::Workers(1), routes)
}

fn ask(server: &MonitoredServer, path: &str, headers: &str) -> String {
    send(
        server.address,
        &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n"),
    )
}

#[test]
fn loopback_reads_both_forms() {
    let server = server(Monitor::builder().build());
    server.get_times("/users/1", 2);
    server.get_times("/users/2", 1);
    server.get_times("/users", 1);
    let answer = ask(&server, SNAPSHOT_PATH, "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let snapshot: Snapshot = serde_json::from_str(body(&answer)).expect("the wire form");
    assert_eq!(snapshot.endpoints["GET /users/{id}"].requests, 3);
    assert_eq!(snapshot.endpoints[UNMATCHED_ENDPOINT].requests, 1);
    assert_eq!(
        snapshot.endpoints.len(),
        2,
        "the monitor's own routes aren't in it"
    );
    let answer = ask(&server, METRICS_PATH, "");
    assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(
        answer.contains(r#"unstall_requests_total{method="GET",route="/users/{id}"} 3"#),
        "{answer}"
    );
}

#[test]
fn where_there_is_a_token_everybody_needs_it() {
    let server = server(Monitor::builder().token("open sesame").build());
    for (headers, status) in [
        // As from a proxy on this machine that adds no header.
        ("", "403"),
        ("authorization: Bearer open sesame\r\n", "200"),
        ("x-forwarded-for: 10.0.0.1\r\n", "403"),
        ("authorization: Bearer wrong\r\n", "403"),
        (
            "x-forwarded-for: 10.0.0.1\r\nauthorization: Bearer open sesame\r\n",
            "200",
        ),
    ] {
        for path in [SNAPSHOT_PATH, METRICS_PATH] {
            let answer = ask(&server, path, headers);
            let expected = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&expected), "{headers:?}: {answer}");
            let is_refusal = body(&answer).starts_with(REFUSAL_PREFIX);
            assert_eq!(is_refusal, status == "403", "{answer}");
        }
    }
}

#[test]
fn the_paths_are_the_users_choice() {
    let monitor = Monitor::builder()
        .snapshot_path("/internal/loop")
        .expect("a plain path")
        .build();
    let server = server(monitor);
    assert!(ask(&server, "/internal/loop", "").starts_with("HTTP/1.1 200"));
    let default = ask(&server, SNAPSHOT_PATH, "");
    assert_eq!(body(&default), "nothing here");
}

#[tokio::test]
async fn without_the_peers_address_it_refuses_and_says_why() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    let router: Router = Monitor::builder().build().router();
    let request = http::Request::get(SNAPSHOT_PATH)
        .body(axum::body::Body::empty())
        .expect("a request");
    let answer = router.oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), http::StatusCode::FORBIDDEN);
    let text = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.contains("into_make_service_with_connect_info"),
        "{text}"
    );
}
