//! Lists longer than one page of the server.

use interlock_api::client::Result;
use interlock_api::page::LIMIT_MAX;
use interlock_api::{Page, PageQuery};

use crate::arguments::ListFlags;

/// Fetches page after page until the list ends or is long enough.
pub(super) async fn collect<T>(
    listing: ListFlags,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>>,
) -> Result<Page<T>> {
    let wanted = usize::try_from(listing.limit).unwrap_or(usize::MAX);
    let mut whole = Page::new(Vec::new(), None);
    loop {
        let missing = u32::try_from(wanted - whole.items.len()).unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
        let query = PageQuery { limit: Some(missing), cursor: whole.next_cursor.clone() };
        let page = fetch(query).await?;
        // A server that repeats a cursor must not keep us here forever.
        let stuck = page.next_cursor == whole.next_cursor;
        whole.items.extend(page.items);
        whole.items.truncate(wanted);
        whole.next_cursor = page.next_cursor;
        if whole.next_cursor.is_none() || whole.items.len() >= wanted || stuck {
            return Ok(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A list of 1,200 numbers in pages of at most 400.
    async fn numbers(limit: u32) -> (Page<u32>, Vec<u32>) {
        let asked = RefCell::new(Vec::new());
        let page = collect(ListFlags { limit }, async |query| {
            let limit = query.limit.unwrap();
            asked.borrow_mut().push(limit);
            let from: u32 = query.cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let to = (from + limit.min(400)).min(1_200);
            Ok(Page::new((from..to).collect(), (to < 1_200).then(|| to.to_string())))
        });
        (page.await.unwrap(), asked.into_inner())
    }

    #[tokio::test]
    async fn a_long_list_is_fetched_page_by_page_up_to_the_limit() {
        let (page, asked) = numbers(900).await;
        assert_eq!(page.items, (0..900).collect::<Vec<_>>());
        assert_eq!(page.next_cursor.as_deref(), Some("900"));
        assert_eq!(asked, [500, 500, 100]);
    }

    #[tokio::test]
    async fn a_list_that_ends_earlier_has_no_next_cursor() {
        let (page, _) = numbers(5_000).await;
        assert_eq!((page.items.len(), page.next_cursor), (1_200, None));
    }
}
