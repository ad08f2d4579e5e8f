//! A headless Chromium.

use interlock_servers::Browser;
use serde_json::json;

#[tokio::test]
async fn a_page_runs_its_script_and_shows_its_document() {
    let mut browser = Browser::start("*.example").await.unwrap();
    let address = "data:text/html,<p id=p>before</p><script>p.textContent = 'after'</script>";
    let page = browser.open(address).await.unwrap();
    let document = browser.evaluate(&page, "document.documentElement.outerHTML").await.unwrap();
    assert!(document.as_str().unwrap().contains("<p id=\"p\">after</p>"), "{document}");
    assert_eq!(browser.evaluate(&page, "Promise.resolve([1, 2])").await.unwrap(), json!([1, 2]));
    let error = browser.evaluate(&page, "missing()").await.unwrap_err();
    assert!(error.to_string().contains("missing is not defined"), "{error:#}");
}
