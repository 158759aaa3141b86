//! `cjson.decode`: JSON text to Lua values.
//!
//! A small tokenizer and a loop over a list of open containers: depth is
//! bounded by an option, never by the native stack. The texts of errors name
//! what was expected, what was found and where, counted from one.

use mlua::{Lua, Table, Value};

use super::cjson::{Options, null};
use crate::script::fail;

/// Depth at which Redis' interpreter runs out of stack, whatever the option.
const MAX_OPEN: usize = 2600;

/// One lexical element. Errors carry what was found instead.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(what) => what,
        }
    }
}

/// A container that is being read.
enum Open {
    Array { table: Table, next: i64 },
    Object { table: Table, key: Vec<u8> },
}

/// Reads JSON text.
pub(crate) fn decode(lua: &Lua, input: &[u8], options: &Options) -> mlua::Result<Value> {
    if input.len() >= 2 && (input[0] == 0 || input[1] == 0) {
        return Err(fail::text(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = Reader { lua, input, at: 0, token_at: 0, options };
    let mut open: Vec<Open> = Vec::new();
    let mut token = reader.next();
    loop {
        let mut value = match token {
            Token::String(text) => Value::String(lua.create_string(&text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(value) => Value::Boolean(value),
            Token::Null => null(),
            Token::ObjectBegin => {
                let table = reader.descend(&open)?;
                match reader.next() {
                    Token::ObjectEnd => Value::Table(table),
                    first => {
                        let key = reader.key(first)?;
                        open.push(Open::Object { table, key });
                        token = reader.next();
                        continue;
                    }
                }
            }
            Token::ArrayBegin => {
                let table = reader.descend(&open)?;
                match reader.next() {
                    Token::ArrayEnd => Value::Table(table),
                    first => {
                        open.push(Open::Array { table, next: 1 });
                        token = first;
                        continue;
                    }
                }
            }
            other => return Err(reader.unexpected("value", &other)),
        };
        // The value is complete: put it in place, close what it completes.
        loop {
            let Some(top) = open.last_mut() else {
                let rest = reader.next();
                if !matches!(rest, Token::End) {
                    return Err(reader.unexpected("the end", &rest));
                }
                return Ok(value);
            };
            match top {
                Open::Array { table, next } => {
                    table.raw_set(*next, value)?;
                    *next += 1;
                    match reader.next() {
                        Token::ArrayEnd => value = Value::Table(table.clone()),
                        Token::Comma => {
                            token = reader.next();
                            break;
                        }
                        other => return Err(reader.unexpected("comma or array end", &other)),
                    }
                }
                Open::Object { table, key } => {
                    table.raw_set(lua.create_string(&*key)?, value)?;
                    match reader.next() {
                        Token::ObjectEnd => value = Value::Table(table.clone()),
                        Token::Comma => {
                            let first = reader.next();
                            *key = reader.key(first)?;
                            token = reader.next();
                            break;
                        }
                        other => return Err(reader.unexpected("comma or object end", &other)),
                    }
                }
            }
            open.pop();
        }
    }
}

/// The position in the input.
struct Reader<'a> {
    lua: &'a Lua,
    input: &'a [u8],
    at: usize,
    /// Where the last token (or the error in it) started.
    token_at: usize,
    options: &'a Options,
}

impl Reader<'_> {
    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let place = self.token_at + 1;
        let text = format!("Expected {expected} but found {} at character {place}", found.name());
        fail::text(self.lua, text)
    }

    fn descend(&self, open: &[Open]) -> mlua::Result<Table> {
        let depth = open.len() + 1;
        if depth > self.options.decode_max_depth as usize || depth > MAX_OPEN {
            let text =
                format!("Found too many nested data structures ({depth}) at character {}", self.at);
            return Err(fail::text(self.lua, text));
        }
        self.lua.create_table()
    }

    /// A key and its colon.
    fn key(&mut self, token: Token) -> mlua::Result<Vec<u8>> {
        let Token::String(key) = token else {
            return Err(self.unexpected("object key string", &token));
        };
        match self.next() {
            Token::Colon => Ok(key),
            other => Err(self.unexpected("colon", &other)),
        }
    }

    /// The byte at a distance; past the end there are zeros, as in C.
    fn peek(&self, ahead: usize) -> u8 {
        self.input.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error(&mut self, what: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(what)
    }

    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.options.decode_invalid && self.is_lax_number() {
                    return self.error("invalid number");
                }
                return self.number();
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(),
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let words: [(&[u8], Token); 3] = [
            (b"true", Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if self.input[self.at..].starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.options.decode_invalid && self.is_lax_number() {
            return self.number();
        }
        self.error("invalid token")
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek(0) {
                b'"' => break,
                0 => return self.error("unexpected end of string"),
                b'\\' => {
                    let plain = match self.peek(1) {
                        same @ (b'"' | b'\\' | b'/') => same,
                        b'b' => 0x08,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 0x0c,
                        b'r' => b'\r',
                        b'u' => match self.unicode() {
                            Some((character, length)) => {
                                text.extend_from_slice(&character);
                                self.at += length;
                                continue;
                            }
                            None => return self.error("invalid unicode escape code"),
                        },
                        _ => return self.error("invalid escape code"),
                    };
                    text.push(plain);
                    self.at += 2;
                }
                plain => {
                    text.push(plain);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Token::String(text)
    }

    /// The character of an escape at the position, and the escape's length.
    fn unicode(&self) -> Option<(Vec<u8>, usize)> {
        let unit = self.hex4(2)?;
        if unit & 0xF800 != 0xD800 {
            let character = char::from_u32(unit)?;
            return Some((character.to_string().into_bytes(), 6));
        }
        if unit & 0x400 != 0 || self.peek(6) != b'\\' || self.peek(7) != b'u' {
            return None;
        }
        let low = self.hex4(8)?;
        if low & 0xFC00 != 0xDC00 {
            return None;
        }
        let character = char::from_u32((((unit & 0x3FF) << 10) | (low & 0x3FF)) + 0x10000)?;
        Some((character.to_string().into_bytes(), 12))
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |value, index| {
            let digit = char::from(self.peek(ahead + index)).to_digit(16)?;
            Some((value << 4) | digit)
        })
    }

    /// Whether the number is one that strtod knows but JSON does not.
    fn is_lax_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let skip = usize::from(self.peek(0) == b'-');
        let (first, second) = (self.peek(skip), self.peek(skip + 1));
        match first {
            b'0' => second | 0x20 == b'x' || second.is_ascii_digit(),
            first if first <= b'9' => false,
            _ => {
                let rest = &self.input[(self.at + skip).min(self.input.len())..];
                let word = rest.get(..3).unwrap_or(rest);
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match parse_number(&self.input[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }
}

/// The longest number at the start of the text, as C's `strtod` reads it.
fn parse_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let signed = |value: f64| if negative { -value } else { value };
    let rest = &text[sign..];
    let starts =
        |word: &[u8]| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word);
    if starts(b"infinity") {
        return Some((signed(f64::INFINITY), sign + 8));
    }
    if starts(b"inf") {
        return Some((signed(f64::INFINITY), sign + 3));
    }
    if starts(b"nan") {
        return Some((signed(f64::NAN), sign + 3));
    }
    if starts(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let value = rest[2..2 + digits].iter().fold(0.0, |value, digit| {
            value * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        });
        return Some((signed(value), sign + 2 + digits));
    }
    let length = decimal_length(rest)?;
    let plain = std::str::from_utf8(&rest[..length]).ok()?;
    Some((signed(plain.parse().ok()?), sign + length))
}

/// How many bytes of the text are a decimal number.
fn decimal_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    let mut fraction = 0;
    if text.get(length) == Some(&b'.') {
        fraction = digits(length + 1);
        length += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(text.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'-' | b'+')));
        let from = (length + 1 + sign).min(text.len());
        let exponent = digits(from);
        if exponent > 0 {
            length = from + exponent;
        }
    }
    Some(length)
}
