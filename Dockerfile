# A node in a container:
#   docker build -t postroom .
#   docker run --rm -v postroom:/var/lib/postroom postroom
# The admin listener stays inside the container; `docker exec NAME postroom stats` asks without it.
FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --locked --profile dist --package postroom-server \
    && install -D target/dist/postroom /out/postroom

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --home-dir /var/lib/postroom --create-home postroom
COPY --from=build /out/postroom /usr/local/bin/postroom
USER postroom
WORKDIR /var/lib/postroom
VOLUME /var/lib/postroom
EXPOSE 7410
# It receives at http://127.0.0.1:7410 until it is told otherwise: https://0.0.0.0:7410 with a certificate (`tls_cert`,
# `tls_key`), or http:// in a network of its own, with `allow_unencrypted`.
# The first SIGTERM lets what is in hand be finished, at most `grace` in [worker].
STOPSIGNAL SIGTERM
ENTRYPOINT ["postroom"]
CMD ["up"]
