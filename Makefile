# Short names for the commands of this project; `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help run test all quick search lint docs sample mutants image pictures picture clean
PYTHON := .venv/bin/python

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

run:  ## plan the bundled sample cluster
	./spark-submit.sh

test:  ## lint, types and the daily tests
	./run-tests.sh

all:  ## lint, types and every test
	./run-tests.sh --all

quick: lint  ## lint, types, the daily tests without Spark (with fewer examples of most properties), and one small plan with Spark
	./run-tests.sh -n 2 --dist worksteal --hypothesis-profile quick -m "small_plan or not (spark or all_only or kafka or cluster or airflow)"

search:  ## property tests with new and more examples than in the suite
	./run-tests.sh -n 2 --dist worksteal --hypothesis-profile search -m "not (spark or kafka or cluster or airflow)"

lint: .venv  ## lint and types only
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

docs: .venv  ## write docs/tables.md and docs/configuration.md again
	$(PYTHON) -m docs.generate

sample: .venv  ## write the inputs of the sample cluster again
	$(PYTHON) -m tests.fixtures.make_sample

mutants: .venv  ## insert faults into the code and list those that the tests miss
	$(PYTHON) -m benchmarks.mutants

image: .venv  ## execute the Dockerfile in a bare root file system and plan the sample (as root; needs debootstrap)
	rm -rf .build/image
	debootstrap --variant=minbase bookworm .build/image
	$(PYTHON) -m tests.setup.image .build/image

pictures: .venv  ## take the pictures of docs/airflow.md again, from a real Airflow (needs Chromium)
	$(PYTHON) -m tests.airflow.pictures

picture: .venv  ## take the picture of README.md again, from a plan of the sample (needs Chromium)
	./spark-submit.sh pipeline --config conf/sample.toml --run-id picture
	sed '/^<script>/,/<\/script>/d' out/picture/sample/report.html > .build/report.html
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,1080 \
		--screenshot=docs/pictures/report.png .build/report.html

clean:  ## remove the tables, plans and caches of this checkout
	rm -rf warehouse out spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv:
	./run-tests.sh --version
