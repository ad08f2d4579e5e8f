//! The commands that Redis receives, as `MONITOR` shows them.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::net::TcpStream;
use tokio::time::timeout;

const WAIT_MAX: Duration = Duration::from_secs(20);
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A command: its name and its arguments, which may be any bytes.
pub(crate) type Words = Vec<Vec<u8>>;

/// Everything from its beginning on. Redis does without it again when it is dropped.
pub(crate) struct Monitor {
    lines: BufReader<Take<TcpStream>>,
}

impl Monitor {
    pub(crate) async fn begin(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(b"MONITOR\r\n").await?;
        let mut monitor = Self { lines: BufReader::new(stream.take(BYTES_MAX)) };
        let answer = timeout(WAIT_MAX, monitor.line()).await.context("Redis does not answer MONITOR")??;
        ensure!(answer == b"+OK", "Redis answered MONITOR with {}", String::from_utf8_lossy(&answer));
        Ok(monitor)
    }

    /// The first command that is the wanted one.
    pub(crate) async fn find(mut self, is_wanted: impl Fn(&[Vec<u8>]) -> bool) -> Result<Words> {
        let look = async {
            loop {
                let line = self.line().await?;
                let words = words(&line).with_context(|| {
                    format!("MONITOR shows what is no command: {}", String::from_utf8_lossy(&line))
                })?;
                if is_wanted(&words) {
                    return Ok(words);
                }
            }
        };
        timeout(WAIT_MAX, look).await.with_context(|| format!("it was not seen in {WAIT_MAX:?}"))?
    }

    async fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line).await?;
        if !line.ends_with(b"\r\n") {
            bail!("MONITOR ended, or printed more than {BYTES_MAX} bytes");
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }
}

/// The command in a line such as `+1700000000.000001 [0 127.0.0.1:50000] "GET" "key"`. None: it is no such line.
fn words(line: &[u8]) -> Option<Words> {
    let begin = line.iter().position(|byte| *byte == b'"')?;
    let mut rest = &line[begin..];
    let mut words = Vec::new();
    while let [b'"', quoted @ ..] = rest {
        let (word, behind) = unquote(quoted)?;
        words.push(word);
        rest = behind.strip_prefix(b" ").unwrap_or(behind);
    }
    rest.is_empty().then_some(words)
}

/// The bytes up to the closing quote, and what comes behind it.
fn unquote(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        let (byte, rest) = match text {
            [b'"', rest @ ..] => return Some((word, rest)),
            [b'\\', b'x', high, low, rest @ ..] => (hex_digit(*high)? * 16 + hex_digit(*low)?, rest),
            [b'\\', letter, rest @ ..] => (escaped(*letter)?, rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        word.push(byte);
        text = rest;
    }
}

fn escaped(letter: u8) -> Option<u8> {
    match letter {
        b'\\' | b'"' => Some(letter),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'a' => Some(0x07),
        b'b' => Some(0x08),
        _ => None,
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &[u8]) -> Option<Vec<Vec<u8>>> {
        words(&[b"+1700000000.000001 [0 127.0.0.1:50000] ", command].concat())
    }

    #[test]
    fn a_command_is_read_word_by_word() {
        assert_eq!(read(br#""GET" "a key" """#), Some(vec![b"GET".to_vec(), b"a key".to_vec(), Vec::new()]));
        assert_eq!(
            words(br#"+1700000000.000001 [0 lua] "SCARD" "s""#),
            Some(vec![b"SCARD".to_vec(), b"s".to_vec()])
        );
    }

    #[test]
    fn every_escape_becomes_the_byte_that_was_sent() {
        assert_eq!(read(br#""{\"a\":\"b\\\"c\"}""#), Some(vec![br#"{"a":"b\"c"}"#.to_vec()]));
        assert_eq!(read(br#""\n\r\t\a\b""#), Some(vec![b"\n\r\t\x07\x08".to_vec()]));
        assert_eq!(read(br#""\x00\xc3\xA9x""#), Some(vec![b"\x00\xc3\xa9x".to_vec()]));
    }

    #[test]
    fn a_quote_or_a_space_within_a_word_does_not_end_it() {
        assert_eq!(read(br#""a\" \"b" "c""#), Some(vec![br#"a" "b"#.to_vec(), b"c".to_vec()]));
        assert_eq!(read(br#""\\" "c""#), Some(vec![br"\".to_vec(), b"c".to_vec()]));
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_no_command() {
        for wrong in [&br#""GET" "a"#[..], br#""\q""#, br#""\x0""#, br#""\xzz""#, br#""a" b"#, b"OK"] {
            assert_eq!(read(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
