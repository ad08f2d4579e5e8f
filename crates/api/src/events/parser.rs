//! Server-sent events, as the HTML standard defines the format: fed with bytes as they come, however they are cut.

/// The longest line that is taken. Events hold a step's output, which is bounded by the size of a request.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One event that was read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The `id:` that stood in this event itself.
    pub id: Option<String>,
    /// The `event:` name; absent means `message`.
    pub event: Option<String>,
    pub data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the event stream is longer than {LINE_BYTES_MAX} bytes")]
pub struct Overlong;

/// Reads one stream from its beginning.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_return: bool,
    lines_read: u64,
    id: Option<String>,
    event: Option<String>,
    /// Lines of data so far, each followed by a line feed.
    data: String,
}

impl Parser {
    /// Takes the next bytes, and gives the events that are complete with them.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, Overlong> {
        let mut messages = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    messages.extend(self.end_line());
                }
                other => {
                    self.after_return = false;
                    if self.line.len() >= LINE_BYTES_MAX {
                        return Err(Overlong);
                    }
                    self.line.push(other);
                }
            }
        }
        Ok(messages)
    }

    fn end_line(&mut self) -> Option<Message> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let is_first = self.lines_read == 0;
        self.lines_read += 1;
        let line = if is_first { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "event" => self.event = Some(value.to_owned()),
            // Comments have an empty name; `retry` is ours to choose; others are to be ignored.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Message> {
        let (id, event) = (self.id.take(), self.event.take());
        let mut data = std::mem::take(&mut self.data);
        // An event without data is not one, by the standard.
        data.pop()?;
        Some(Message { id, event, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Message> {
        Parser::default().feed(text.as_bytes()).unwrap()
    }

    fn message(id: Option<&str>, event: Option<&str>, data: &str) -> Message {
        Message { id: id.map(str::to_owned), event: event.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn an_event_ends_at_an_empty_line() {
        let text = "id: 7\nevent: run_status\ndata: {\"seq\":7}\n\ndata: never ended\n";
        assert_eq!(read(text), [message(Some("7"), Some("run_status"), "{\"seq\":7}")]);
    }

    #[test]
    fn comments_and_events_without_data_are_not_events() {
        assert_eq!(read(": keep alive\n\nid: 3\n\nretry: 10\n\n\n"), []);
    }

    #[test]
    fn lines_of_data_are_joined_and_only_one_space_is_dropped() {
        assert_eq!(read("data: a\ndata:  b\ndata\ndata:c\n\n"), [message(None, None, "a\n b\n\nc")]);
    }

    #[test]
    fn an_id_counts_for_its_own_event_only() {
        let read = read("id: 1\ndata: a\n\ndata: b\n\n");
        assert_eq!(read, [message(Some("1"), None, "a"), message(None, None, "b")]);
    }

    #[test]
    fn every_line_ending_and_every_cut_gives_the_same_events() {
        let expected = [message(Some("1"), None, "é"), message(Some("2"), None, "b")];
        for ending in ["\n", "\r\n", "\r"] {
            let text = "\u{feff}id: 1|data: é||id: 2|data: b||".replace('|', ending);
            for cut in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                let mut parser = Parser::default();
                let mut messages = parser.feed(first).unwrap();
                messages.extend(parser.feed(second).unwrap());
                assert_eq!(messages, expected, "{ending:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(&vec![b'x'; LINE_BYTES_MAX + 1]), Err(Overlong));
    }
}
