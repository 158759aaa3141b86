//! A merchant's input about a shop, and its validation.
//!
//! Only the fields here can be set: owner, sales, comments and score are managed by the market.

use super::{Shop, ShopType};
use crate::{
    check,
    error::{Error, Result},
};

/// Maximum latitude of the map, in degrees north or south.
const MAX_LATITUDE: f64 = 85.051_128_78;
/// Maximum pictures of one shop.
const MAX_PICTURES: usize = 9;
/// Maximum characters of all their paths.
const PICTURES_CHARS: usize = 1024;
/// Maximum price of a visit, in cents.
const MAX_PRICE: i64 = 100_000_000;
/// Initial score of a shop without ratings.
const FIRST_SCORE: i64 = 30;

/// Unvalidated input. Absent fields are not changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Draft<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) type_id: Option<u64>,
    pub(crate) images: Option<&'a str>,
    pub(crate) area: Option<&'a str>,
    pub(crate) address: Option<&'a str>,
    pub(crate) x: Option<f64>,
    pub(crate) y: Option<f64>,
    pub(crate) avg_price: Option<i64>,
    pub(crate) open_hours: Option<&'a str>,
}

/// A validated draft.
#[derive(Debug, Clone)]
pub(super) struct Change {
    name: Option<String>,
    type_id: Option<u64>,
    images: Option<String>,
    area: Option<String>,
    address: Option<String>,
    x: Option<f64>,
    y: Option<f64>,
    avg_price: Option<i64>,
    open_hours: Option<String>,
}

impl Draft<'_> {
    /// Validates the draft.
    ///
    /// # Errors
    /// [`Error::BadInput`] names the invalid field.
    pub(super) fn check(self, types: &[ShopType]) -> Result<Change> {
        if let Some(kind) = self.type_id
            && !types.iter().any(|known| known.id == kind)
        {
            return Err(Error::bad("UNKNOWN_TYPE", "there is no such kind of shop"));
        }
        let text = |field, value: Option<&str>, chars| {
            value.map(|value| check::text(field, value, chars)).transpose()
        };
        Ok(Change {
            name: text("name", self.name, 1..=128)?,
            type_id: self.type_id,
            images: self.images.map(pictures).transpose()?,
            area: text("area", self.area, 0..=128)?,
            address: text("address", self.address, 0..=255)?,
            x: self.x.map(|x| degrees("x", x, 180.0)).transpose()?,
            y: self.y.map(|y| degrees("y", y, MAX_LATITUDE)).transpose()?,
            avg_price: self
                .avg_price
                .map(|price| check::number("avgPrice", price, 0..=MAX_PRICE))
                .transpose()?,
            open_hours: text("openHours", self.open_hours, 0..=32)?,
        })
    }
}

impl Change {
    /// Creates a shop with these values.
    ///
    /// # Errors
    /// [`Error::BadInput`] names a required field that is missing.
    pub(super) fn open(self, id: u64, owner_id: u64, now: i64) -> Result<Shop> {
        let lacks = |field: &str| Error::bad("MISSING", format!("a new shop needs {field}"));
        Ok(Shop {
            id,
            owner_id,
            name: self.name.ok_or_else(|| lacks("name"))?,
            type_id: self.type_id.ok_or_else(|| lacks("typeId"))?,
            images: self.images.unwrap_or_default(),
            area: self.area.unwrap_or_default(),
            address: self.address.unwrap_or_default(),
            x: self.x.ok_or_else(|| lacks("x"))?,
            y: self.y.ok_or_else(|| lacks("y"))?,
            avg_price: self.avg_price.unwrap_or_default(),
            sold: 0,
            comments: 0,
            score: FIRST_SCORE,
            open_hours: self.open_hours.unwrap_or_default(),
            create_time: now,
            update_time: now,
        })
    }

    /// Returns the shop with these values applied.
    pub(super) fn applied(self, mut shop: Shop) -> Shop {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        put(&mut shop.name, self.name);
        put(&mut shop.type_id, self.type_id);
        put(&mut shop.images, self.images);
        put(&mut shop.area, self.area);
        put(&mut shop.address, self.address);
        put(&mut shop.x, self.x);
        put(&mut shop.y, self.y);
        put(&mut shop.avg_price, self.avg_price);
        put(&mut shop.open_hours, self.open_hours);
        shop
    }
}

fn degrees(field: &str, value: f64, most: f64) -> Result<f64> {
    // Written so that NaN is refused too.
    if value.abs() <= most {
        return Ok(value);
    }
    Err(Error::bad("BAD_POINT", format!("{field} is from -{most} to {most} degrees")))
}

/// Validates paths of our own pictures, separated by commas.
fn pictures(value: &str) -> Result<String> {
    let value = check::text("images", value, 0..=PICTURES_CHARS)?;
    let paths: Vec<&str> =
        value.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    let ours = |path: &&str| {
        (path.starts_with("/uploads/") || path.starts_with("/pictures/"))
            && !path.contains("..")
            && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
    };
    if paths.len() > MAX_PICTURES || !paths.iter().all(ours) {
        let msg =
            "images are up to nine paths that POST /upload/image answered, with commas between";
        return Err(Error::bad("BAD_IMAGES", msg));
    }
    Ok(paths.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pictures_pass() {
        assert_eq!(pictures(" /uploads/ab/c.png, ").ok().as_deref(), Some("/uploads/ab/c.png"));
        assert_eq!(pictures("").ok().as_deref(), Some(""));
        let many = ["/pictures/shop/1.svg"; 10].join(",");
        for bad in ["http://x/y.png", "//x/y", "/uploads/../../etc", "/uploads/a b", many.as_str()]
        {
            assert!(pictures(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn points_are_on_the_map() {
        assert!(degrees("x", 180.0, 180.0).is_ok());
        for bad in [180.1, f64::NAN, f64::INFINITY] {
            assert!(degrees("x", bad, 180.0).is_err(), "{bad}");
        }
    }
}
