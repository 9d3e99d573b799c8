//! Setters of options.

/// Writes setters that take the options by value and return them, so that calls can be chained. A setter is written
/// like a method, without its result.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident(mut $self:ident $(, $argument:ident: $type:ty)*) $body:block
    )*) => {
        $(
            $(#[$meta])*
            #[must_use]
            $visibility fn $name(mut $self $(, $argument: $type)*) -> Self {
                $body
                $self
            }
        )*
    };
}
