//! The page.

use crate::cluster::{Cluster, answered};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};

#[tokio::test]
async fn the_page_and_its_files_come_with_a_strict_policy() {
    let cluster = Cluster::one().await;
    let page = cluster.get(0, "/").await;
    assert_eq!((page.status.as_u16(), &page.headers[CONTENT_TYPE]), (200, &"text/html".parse().expect("ASCII")));
    let policy = page.headers["content-security-policy"].to_str().expect("ASCII");
    assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("cache-control", "no-cache")] {
        assert_eq!(page.headers[name], value);
    }
    let unchanged = cluster.request(0, Method::GET, "/").header(IF_NONE_MATCH, page.headers[ETAG].clone());
    assert_eq!(answered(unchanged).await.status, 304);
    let head = answered(cluster.request(0, Method::HEAD, "/")).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));

    let mut files = Vec::new();
    for part in page.text.split(['"', '\'']).filter(|p| p.starts_with('/') && p.contains('.')) {
        let file = cluster.get(0, part).await;
        assert_eq!(file.status, 200, "{part}");
        assert!(file.headers.contains_key("content-security-policy"), "{part}");
        files.push(part.to_owned());
    }
    assert!(files.iter().any(|f| f == "/app.js") && files.iter().any(|f| f == "/app.css"), "{files:?}");
}

/// What would be refused by the policy, or ask somebody else.
#[tokio::test]
async fn the_page_has_nothing_inline_and_asks_nobody_else() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboard");
    // libraries are as npm has them, and never asked to set markup
    let ours = [folder.to_owned(), format!("{folder}/views")].into_iter().flat_map(|folder| std::fs::read_dir(folder).expect("the folder"));
    for entry in ours {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text").to_lowercase();
        for bad in [
            "innerhtml",
            "dangerously",
            "outerhtml",
            "insertadjacenthtml",
            "document.write",
            "eval(",
            "style=\"",
            "onclick=\"",
            "<style",
            "//cdn",
            "https://",
        ] {
            assert!(!text.contains(bad), "{bad} in {}", path.display());
        }
    }
}
