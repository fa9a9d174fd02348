# A PyTorch service on CUDA with the agent attached; put your own program in place of serve.py.
#   docker build -f deploy/service.Dockerfile -t reco .
#   docker run --gpus all --shm-size 1g -e MIDWATCH_COLLECTOR=collector:7171 reco
# /dev/shm holds the trace of an open window, which is why --shm-size is worth setting.
FROM pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel
COPY . /src/midwatch
# The devel image has the compiler that builds the profiler shim into the wheel.
RUN pip install --no-cache-dir /src/midwatch && rm -rf /src/midwatch
WORKDIR /app
COPY deploy/serve.py .
ENV MIDWATCH_SERVICE=reco MIDWATCH_COLLECTOR=collector:7171
# `midwatch run` attaches the agent without a change of code; with `import midwatch.auto` in the program it is not needed.
ENTRYPOINT ["midwatch", "run", "--"]
CMD ["python", "serve.py"]
