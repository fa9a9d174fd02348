# The collector: gRPC on 7171, SQLite and raw traces in the volume /data.
#   docker build -f deploy/collector.Dockerfile -t midwatch-collector .
#   docker run -p 127.0.0.1:7171:7171 -v midwatch:/data midwatch-collector
# It has no authentication in this version: publish the port on loopback or on a private network only.
FROM python:3.12-slim
RUN useradd --system --create-home --home-dir /data midwatch
COPY . /src
RUN pip install --no-cache-dir '/src[collector]' && rm -rf /src
USER midwatch
WORKDIR /data
VOLUME /data
EXPOSE 7171
# The collector closes its command streams and commits what it holds before it ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["midwatch", "collector"]
CMD ["--db", "/data/midwatch.db", "--grpc", "0.0.0.0:7171"]
